package ec2test

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

const (
	testSubnet = "subnet-12345678"
	testImage  = "ami-0123456789abcdef0"
	testGroup  = "sg-12345678"
	testRegion = "us-east-1"
)

// account is a server and a client of the SDK, inside a synctest bubble.
type testAccount struct {
	t      *testing.T
	sim    *simcloud.Cloud
	server *Server
	client *ec2.Client
}

// inAccount runs f in a bubble. The SDK does not retry, so that each answer is seen.
func inAccount(t *testing.T, so simcloud.Options, o Options, f func(*testing.T, *testAccount)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		so.ProviderPrefix = ProviderPrefix
		sim := simcloud.New(so)
		a := &testAccount{t: t, sim: sim, server: New(sim, o)}
		a.client = a.in(testRegion)
		f(t, a)
	})
}

// in returns a client of the region.
func (a *testAccount) in(region string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: region, BaseEndpoint: aws.String("http://ec2.test.invalid"), HTTPClient: a.server.HTTPClient(),
		Retryer:     aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("AKIDTEST", "secret", ""),
	})
}

func (a *testAccount) after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of the synctest bubble moves, no time passes
	synctest.Wait()
}

// runInput is a launch of one instance.
func runInput() *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		ImageId: aws.String(testImage), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		SubnetId:         aws.String(testSubnet),
		SecurityGroupIds: []string{testGroup}, InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorStop,
		UserData:        aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\n"))),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{InstanceMetadataTags: types.InstanceMetadataTagsStateDisabled},
	}
}

// run launches n instances with the tags.
func (a *testAccount) run(n int32, tags map[string]string) []string {
	a.t.Helper()
	input := runInput()
	input.MinCount, input.MaxCount = aws.Int32(n), aws.Int32(n)
	if len(tags) > 0 {
		spec := types.TagSpecification{ResourceType: types.ResourceTypeInstance}
		for key, value := range tags {
			spec.Tags = append(spec.Tags, types.Tag{Key: aws.String(key), Value: aws.String(value)})
		}
		input.TagSpecifications = []types.TagSpecification{spec}
	}
	out, err := a.client.RunInstances(a.t.Context(), input)
	if err != nil {
		a.t.Fatal(err)
	}
	var ids []string
	for _, i := range out.Instances {
		ids = append(ids, *i.InstanceId)
	}
	return ids
}

// standby launches n instances and stops them.
func (a *testAccount) standby(n int32) []string {
	a.t.Helper()
	ids := a.run(n, nil)
	a.after(4 * time.Second)
	if _, err := a.client.StopInstances(a.t.Context(), &ec2.StopInstancesInput{InstanceIds: ids}); err != nil {
		a.t.Fatal(err)
	}
	a.after(2 * time.Second)
	return ids
}

func (a *testAccount) start(ids ...string) error {
	_, err := a.client.StartInstances(a.t.Context(), &ec2.StartInstancesInput{InstanceIds: ids})
	return err
}

// get describes one instance.
func (a *testAccount) get(id string) types.Instance {
	a.t.Helper()
	out, err := a.client.DescribeInstances(a.t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		a.t.Fatal(err)
	}
	if len(out.Reservations) != 1 || len(out.Reservations[0].Instances) != 1 {
		a.t.Fatalf("%s is described by %d reservations", id, len(out.Reservations))
	}
	return out.Reservations[0].Instances[0]
}

func (a *testAccount) is(want types.InstanceStateName, ids ...string) {
	a.t.Helper()
	for _, id := range ids {
		if got := a.get(id).State.Name; got != want {
			a.t.Errorf("instance %s is %s, want %s", id, got, want)
		}
	}
}

// codeOf is the code that the SDK reads out of an error; empty for none.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	var api smithy.APIError
	if err != nil && !errors.As(err, &api) {
		t.Errorf("the SDK reads no code out of %v", err)
		return err.Error()
	}
	if api == nil {
		return ""
	}
	return api.ErrorCode()
}

func (a *testAccount) arm(f simcloud.Fault) {
	a.t.Helper()
	if _, err := a.sim.AddFault(context.Background(), f); err != nil {
		a.t.Fatal(err)
	}
}
