package fake

// Options configure a Cloud. The zero value is a cloud with three zones of us-east-1, without
// limits or faults.
type Options struct {
	// Region is used for classes that name none; default us-east-1. Zones is the number of zones per
	// region, default 3.
	Region string
	Zones  int
	// Types are added to the built-in table and win over it.
	Types []InstanceType
	// Times of the cloud; zero fields take the default.
	Times Times
	// Capacity limits; an offering without a limit has no end.
	Capacity []Capacity
	// SubnetAddresses limits the instances per subnet, stopped ones included, as they keep their
	// address.
	SubnetAddresses map[string]int
	// Limits are token buckets per operation; an operation without one is unlimited.
	Limits map[Op]Limit
	// Seed makes ids, names and chance reproducible; 0 takes a random one.
	Seed uint64
}
