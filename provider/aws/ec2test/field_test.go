package ec2test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// TestARefusedLaunchKeepsItsToken: with other parameters the token is refused, with the same ones
// it launches.
func TestARefusedLaunchKeepsItsToken(t *testing.T) {
	t.Parallel()
	none := []simcloud.Capacity{{Zone: "*", Type: "m5.large", Count: 0}}
	for name, change := range map[string]func(*ec2.RunInstancesInput){
		"another type":  func(i *ec2.RunInstancesInput) { i.InstanceType = "m5.xlarge" },
		"another image": func(i *ec2.RunInstancesInput) { i.ImageId = aws.String("ami-0123456789abcdef2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{Capacity: none}, Options{}, func(t *testing.T, a *testAccount) {
				launch := func(change func(*ec2.RunInstancesInput)) string {
					input := runInput()
					input.ClientToken = aws.String("slot")
					change(input)
					_, err := a.client.RunInstances(t.Context(), input)
					return codeOf(t, err)
				}
				same := func(*ec2.RunInstancesInput) {}
				if code := launch(same); code != codeCapacity {
					t.Fatalf("launch without room: %q", code)
				}
				if code := launch(change); code != codeMismatch {
					t.Errorf("with other parameters: %q", code)
				}
				if err := a.sim.SetCapacity(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				if code := launch(same); code != "" {
					t.Errorf("the same again with room: %q", code)
				}
			})
		})
	}
}

func TestAPendingInstanceCannotStop(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		ids := a.run(1, nil)
		for _, force := range []bool{false, true} {
			_, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: ids, Force: aws.Bool(force)})
			if code := codeOf(t, err); code != codeState {
				t.Errorf("with force %v: %q", force, code)
			}
		}
		a.after(4 * time.Second)
		a.is(types.InstanceStateNameRunning, ids...)
	})
}

func TestProtectedInstances(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		protection      Protection
		stop, terminate string
		attribute       string
	}{
		"not protected":    {},
		"from stops":       {Protection{Stop: true}, codeNotPermitted, codeNotPermitted, "disableApiStop"},
		"from termination": {Protection{Termination: true}, "", codeNotPermitted, "disableApiTermination"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
				id := a.run(1, nil)[0]
				a.after(4 * time.Second)
				a.server.Protect(id, tt.protection)
				_, err := a.client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
				if code := codeOf(t, err); code != tt.stop {
					t.Errorf("stop: %q, want %q", code, tt.stop)
				}
				_, err = a.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
				if code := codeOf(t, err); code != tt.terminate || err != nil && !strings.Contains(err.Error(), tt.attribute) {
					t.Errorf("terminate: %v, want %q with %s", err, tt.terminate, tt.attribute)
				}
				a.server.Protect(id, Protection{})
				_, err = a.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
				if err != nil {
					t.Errorf("terminate without protection: %v", err)
				}
			})
		})
	}
}

// TestATerminationOverZonesSucceedsInPart: the zone of the protected instance keeps all of its
// instances.
func TestATerminationOverZonesSucceedsInPart(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		here := a.run(2, nil)
		input := runInput()
		input.SubnetId = aws.String("subnet-12345679")
		out, err := a.client.RunInstances(t.Context(), input)
		if err != nil {
			t.Fatal(err)
		}
		there := *out.Instances[0].InstanceId
		a.after(4 * time.Second)
		a.server.Protect(here[0], Protection{Termination: true})
		_, err = a.client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: append(slices.Clone(here),
			there)})
		if code := codeOf(t, err); code != codeNotPermitted || !strings.Contains(err.Error(), here[0]) {
			t.Errorf("terminate: %v", err)
		}
		a.is(types.InstanceStateNameRunning, here...)
		a.is(types.InstanceStateNameShuttingDown, there)
	})
}

func TestTagKeysInTheMetadata(t *testing.T) {
	t.Parallel()
	const off, on = types.InstanceMetadataTagsStateDisabled, types.InstanceMetadataTagsStateEnabled
	for name, tt := range map[string]struct {
		account bool
		asked   types.InstanceMetadataTagsState
		refused string
	}{
		"neither the account nor the launch": {},
		"the account's default":              {account: true, refused: codeInvalid},
		"off for the launch":                 {account: true, asked: off},
		"on for the launch":                  {asked: on, refused: codeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := DefaultAccount()
			account.MetadataTags = tt.account
			inAccount(t, simcloud.Options{}, Options{Account: account}, func(t *testing.T, a *testAccount) {
				slash := []types.Tag{{Key: aws.String("stratos.sh/pool"), Value: aws.String("p")}}
				launch := func(tags []types.Tag) (string, string) {
					input := runInput()
					input.MetadataOptions = &types.InstanceMetadataOptionsRequest{InstanceMetadataTags: tt.asked}
					input.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}}
					out, err := a.client.RunInstances(t.Context(), input)
					if err != nil {
						return "", codeOf(t, err)
					}
					return *out.Instances[0].InstanceId, ""
				}
				if _, code := launch(slash); code != tt.refused {
					t.Errorf("launch with a slash in a key: %q, want %q", code, tt.refused)
				}
				id, code := launch([]types.Tag{{Key: aws.String("pool"), Value: aws.String("p")}})
				if code != "" {
					t.Fatalf("launch with a plain key: %q", code)
				}
				_, err := a.client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: slash})
				if code := codeOf(t, err); code != tt.refused {
					t.Errorf("tag with a slash in its key: %q, want %q", code, tt.refused)
				}
			})
		})
	}
}

// TestANameMatchesEveryAccountsPublicImages unless owners are named.
func TestANameMatchesEveryAccountsPublicImages(t *testing.T) {
	t.Parallel()
	inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
		find := func(owners ...string) []string {
			out, err := a.client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{
				Owners: owners, Filters: []types.Filter{{Name: aws.String("name"), Values: []string{"nodes-of-our-own"}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, i := range out.Images {
				ids = append(ids, *i.ImageId)
			}
			return ids
		}
		own, strangers := "ami-0123456789abcdef5", "ami-0123456789abcdef7"
		if diff := cmp.Diff([]string{own, strangers}, find()); diff != "" {
			t.Errorf("without owner (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{own}, find("self", "amazon")); diff != "" {
			t.Errorf("of ourselves and Amazon (-want +got):\n%s", diff)
		}
	})
}

func TestTheLengthsOfTags(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		key, value int
		code       string
	}{
		"the longest":      {127, 256, ""},
		"a key too long":   {128, 1, codeInvalid},
		"a value too long": {1, 257, codeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAccount(t, simcloud.Options{}, Options{}, func(t *testing.T, a *testAccount) {
				input := runInput()
				input.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{
					{Key: aws.String(strings.Repeat("k", tt.key)), Value: aws.String(strings.Repeat("v", tt.value))},
				}}}
				if _, err := a.client.RunInstances(t.Context(), input); codeOf(t, err) != tt.code {
					t.Errorf("%v, want %q", err, tt.code)
				}
			})
		})
	}
}
