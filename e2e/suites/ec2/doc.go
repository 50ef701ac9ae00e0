// Package ec2 plays the main job with --cloud-provider=aws: Stratos calls EC2 by the SDK, and the
// EC2 test server, a process of its own with simulated machines behind it, answers.
package ec2
