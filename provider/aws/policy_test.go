package aws

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestThePolicyAllowsWhatIsCalled: no less than the provider calls, no more, and what changes
// anything only by this cluster's tags.
func TestThePolicyAllowsWhatIsCalled(t *testing.T) {
	text, err := os.ReadFile("../../docs/aws-iam-policy.json")
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct {
			Action    any
			Condition map[string]map[string]string
			Resource  any
		}
	}
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	allowed, bound := map[string]bool{}, map[string]string{}
	for _, s := range policy.Statement {
		var actions []any
		switch a := s.Action.(type) {
		case string:
			actions = []any{a}
		case []any:
			actions = a
		}
		for _, a := range actions {
			action, _ := a.(string)
			allowed[action] = true
			for _, key := range []string{"aws:RequestTag/stratos.sh/cluster", "aws:ResourceTag/stratos.sh/cluster"} {
				if value := s.Condition["StringEquals"][key]; value != "" {
					bound[action] = key + "=" + value
				}
			}
			if attribute := s.Condition["StringEquals"]["ec2:Attribute"]; attribute != "" {
				bound[action] += " " + attribute
			}
		}
	}
	called := []string{"eks:DescribeCluster", "iam:PassRole"}
	for _, op := range []string{
		"CreateTags", "DescribeCapacityReservations", "DescribeImages", "DescribeInstanceTypes", "DescribeInstances", "DescribeSecurityGroups",
		"DescribeSubnets", "ModifyInstanceAttribute",
		"ModifyInstanceCapacityReservationAttributes", "RunInstances", "StartInstances", "StopInstances", "TerminateInstances",
	} {
		called = append(called, "ec2:"+op)
	}
	slices.Sort(called)
	if diff := cmp.Diff(called, slices.Sorted(maps.Keys(allowed))); diff != "" {
		t.Errorf("actions (-called +allowed):\n%s", diff)
	}
	want := map[string]string{
		"ec2:RunInstances":       "aws:RequestTag/stratos.sh/cluster=CLUSTER",
		"ec2:StartInstances":     "aws:ResourceTag/stratos.sh/cluster=CLUSTER",
		"ec2:StopInstances":      "aws:ResourceTag/stratos.sh/cluster=CLUSTER",
		"ec2:TerminateInstances": "aws:ResourceTag/stratos.sh/cluster=CLUSTER",
		"ec2:CreateTags":         "aws:ResourceTag/stratos.sh/cluster=CLUSTER",
		"ec2:ModifyInstanceCapacityReservationAttributes": "aws:ResourceTag/stratos.sh/cluster=CLUSTER",
		// User data is an attribute too.
		"ec2:ModifyInstanceAttribute": "aws:ResourceTag/stratos.sh/cluster=CLUSTER InstanceType",
	}
	if diff := cmp.Diff(want, bound); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
