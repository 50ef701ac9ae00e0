// Package simcloud is a cloud without an API: instances in memory, with the times, limits and
// faults of a real one. provider/fake answers for it in the words of provider.CloudProvider,
// provider/aws/ec2test in EC2's own protocol; both may stand before one cloud at a time.
package simcloud
