package aws

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

// member is one of two clusters on one account, with a process of its own.
type member struct {
	cluster string
	cloud   *Cloud
	ids     []string
}

// tags are those of its pool, which has the same name in both clusters.
func (m *member) tags() map[string]string {
	tags := ours("web")
	tags[v1alpha1.TagCluster] = m.cluster
	return tags
}

// sweep is what the scaler lists by.
func (m *member) sweep(t *testing.T) []string {
	t.Helper()
	listed, err := m.cloud.ListInstances(t.Context(), map[string]string{
		v1alpha1.TagManagedBy: v1alpha1.ManagedByStratos, v1alpha1.TagCluster: m.cluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, i := range listed {
		ids = append(ids, string(i.ID))
	}
	return ids
}

// TestTwoClustersOnOneAccount: pools of the same name, launched, stopped, started, tagged and
// terminated by what each cluster's sweep shows. Whatever one does to all that it sees happens to
// its own instances and to no other.
func TestTwoClustersOnOneAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, simcloud.Options{})
		here, there := &member{cluster: "here", cloud: r.cloud(t)}, &member{cluster: "there", cloud: r.cloud(t)}
		for i := range 4 {
			for _, m := range []*member{here, there} {
				launched, err := m.cloud.LaunchInstance(t.Context(), class(), provider.LaunchRequest{
					ClientToken: fmt.Sprintf("uid-of-%s-%d", m.cluster, i), Number: int64(i), Tags: m.tags(),
				})
				if err != nil {
					t.Fatal(err)
				}
				m.ids = append(m.ids, string(launched.ID))
			}
		}
		pass(time.Minute)
		for _, m := range []*member{here, there} {
			if diff := cmp.Diff(slices.Sorted(slices.Values(m.ids)), m.sweep(t)); diff != "" {
				t.Errorf("cluster %s sees (-its own +listed):\n%s", m.cluster, diff)
			}
		}
		before := r.tagsOf(t, there.ids)
		acts := map[string]func(id string) error{
			"stop":  func(id string) error { return here.cloud.StopInstance(t.Context(), id, false) },
			"start": func(id string) error { return here.cloud.StartInstance(t.Context(), id) },
			"tag": func(id string) error {
				return here.cloud.UpdateInstanceTags(t.Context(), id,
					map[string]string{v1alpha1.LabelState: string(v1alpha1.StateTerminating)})
			},
			"terminate": func(id string) error { return here.cloud.TerminateInstance(t.Context(), id) },
		}
		for _, name := range []string{"stop", "start", "tag", "terminate"} {
			for _, err := range atOnce(here.sweep(t), acts[name]) {
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			pass(30 * time.Second)
		}
		r.checkUntouched(t, here, there)
		if diff := cmp.Diff(before, r.tagsOf(t, there.ids)); diff != "" {
			t.Errorf("tags of the other cluster's instances (-before +after):\n%s", diff)
		}
	})
}

// tagsOf is the truth about the instances' tags.
func (r *rig) tagsOf(t *testing.T, ids []string) map[v1alpha1.InstanceID]map[string]string {
	t.Helper()
	views, err := r.sim.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tags := map[v1alpha1.InstanceID]map[string]string{}
	for _, v := range views {
		if slices.Contains(ids, string(v.ID)) {
			tags[v.ID] = v.Tags
		}
	}
	return tags
}

func (r *rig) checkUntouched(t *testing.T, gone, left *member) {
	t.Helper()
	if got := r.states(t, gone.ids); got[provider.InstanceTerminated] != len(gone.ids) {
		t.Errorf("cluster %s: %v, want all terminated", gone.cluster, got)
	}
	views, err := r.sim.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		if !slices.Contains(left.ids, string(v.ID)) {
			continue
		}
		if v.State != provider.InstanceRunning || v.Boots != 1 {
			t.Errorf("instance %s of cluster %s is %s after %d boots", v.ID, left.cluster, v.State, v.Boots)
		}
	}
	for _, q := range r.server.Requests() {
		changes := q.Action != ec2test.RunInstances && q.Action != ec2test.DescribeInstances
		if changes && slices.ContainsFunc(q.Instances, func(id v1alpha1.InstanceID) bool {
			return slices.Contains(left.ids,
				string(id))
		}) {
			t.Errorf("%s of cluster %s's instances: %v", q.Action, left.cluster, q.Instances)
		}
	}
}
