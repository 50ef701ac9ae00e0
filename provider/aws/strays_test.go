package aws

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// docsPolicy is the policy of the docs for the cluster "here".
func docsPolicy(t *testing.T) *ec2test.Policy {
	t.Helper()
	text, err := os.ReadFile("../../docs/aws-iam-policy.json")
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("REGION", "us-east-1", "ACCOUNT", "123456789012", "CLUSTER", "here")
	p, err := ec2test.ParsePolicy(text, names)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// take removes a tag from an instance, past every policy.
func (r *rig) take(t *testing.T, id, key string) {
	t.Helper()
	r.sim.Write(func(b *simcloud.Book) {
		inst, err := b.Find(v1alpha1.InstanceID(id))
		if err != nil {
			t.Error(err)
			return
		}
		tags := map[string]string{}
		for k, v := range inst.Tags {
			if k != key {
				tags[k] = v
			}
		}
		inst.Tags = tags
	})
}

// What Stratos does is allowed by the policy of the docs, the repair of lost tags included.
func TestThePolicyAllowsARepair(t *testing.T) {
	for key, want := range map[string]bool{
		v1alpha1.TagManagedBy: true, v1alpha1.LabelPool: true, v1alpha1.TagClusterUID: true,
		v1alpha1.TagCluster: false, // a policy bound to a tag cannot restore that tag
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, simcloud.Options{})
			r.server.SetPolicy(docsPolicy(t))
			c := r.cloud(t)
			id := stopped(t, c, 1)[0]
			r.take(t, id, key)
			err := c.UpdateInstanceTags(t.Context(), id, map[string]string{key: ours("p")[key]})
			if (err == nil) != want {
				t.Errorf("tag %s written again: %v", key, err)
			}
			if err != nil && !strings.Contains(err.Error(), "UnauthorizedOperation") {
				t.Errorf("refused without EC2's words: %v", err)
			}
		})
	}
}

// No policy of ours lets Stratos tag or change what is not this cluster's.
func TestThePolicyKeepsOthersInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		c := r.cloud(t)
		theirs := ours("p")
		theirs[v1alpha1.TagCluster] = "there"
		for _, tags := range []map[string]string{
			theirs, {v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos}, {"Name": "somebody's"}, {},
		} {
			id := r.warmed(t, 1, tags, false)[0]
			r.server.SetPolicy(docsPolicy(t))
			for name, err := range map[string]error{
				"tag":       c.UpdateInstanceTags(t.Context(), id, ours("p")),
				"stop":      c.StopInstance(t.Context(), id, false),
				"terminate": c.TerminateInstance(t.Context(), id),
			} {
				if err == nil {
					t.Errorf("%s of an instance with the tags %v", name, tags)
				}
			}
			r.server.SetPolicy(nil)
		}
	})
}

// An instance that a policy bound to tags does not cover any more keeps no other from its call.
func TestAStrayInstanceKeepsNoOtherFromItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{}, unlimitedCalls)
		c := r.cloud(t, func(o *Options) { o.Limits, o.Resources = nil, nil })
		all := stopped(t, c, 12)
		stray := map[string]bool{all[3]: true, all[7]: true}
		for id := range stray {
			r.take(t, id, v1alpha1.TagManagedBy)
			r.take(t, id, v1alpha1.TagCluster)
		}
		r.server.SetPolicy(docsPolicy(t))
		slow := simcloud.Fault{Kind: simcloud.FaultLatency, Delay: 1 << 28} // so that they leave together
		r.fault(t, slow)
		for name, call := range map[string]func(id string) error{
			"start": func(id string) error { return c.StartInstance(t.Context(), id) },
			"tag": func(id string) error {
				return c.UpdateInstanceTags(t.Context(), id, map[string]string{v1alpha1.LabelState: "standby"})
			},
		} {
			for id, err := range atOnce(all, call) {
				if stray[id] != (err != nil) {
					t.Errorf("%s of %s (stray: %v): %v", name, id, stray[id], err)
				}
			}
		}
		before := len(r.server.Requests())
		r.server.SetPolicy(&ec2test.Policy{})
		for id, err := range atOnce(all, func(id string) error { return c.StopInstance(t.Context(), id, false) }) {
			if err == nil || provider.IsNotFound(err) {
				t.Errorf("stop of %s without any permission: %v", id, err)
			}
		}
		if calls := len(r.server.Requests()) - before; calls > 2*(mostDenied+2) {
			t.Errorf("%d calls to find out that there is no permission", calls)
		}
	})
}
