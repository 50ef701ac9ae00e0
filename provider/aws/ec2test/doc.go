// Package ec2test is a server that speaks EC2's Query protocol over HTTP, with a played cloud
// behind it: what the SDK sends and reads on the wire is what it would send to and read from EC2.
// It models what decides about a client's behaviour: instance life, lagging reads, capacity by zone
// and type, the published token buckets, calls that fail as a whole, idempotency by client token,
// filters, pages, and lost answers. Of EKS it answers
// DescribeCluster and DescribeAccessEntry, in JSON as that does, of STS GetCallerIdentity, and of
// IAM GetInstanceProfile.
//
// It shares no type with the SDK, so that the two cannot agree on a mistake, and it refuses each
// parameter that it does not know, so that a misspelt one cannot pass. Its clock is package time.
// Over HTTPClient, which calls it without a socket, it runs with the SDK in a synctest bubble.
package ec2test
