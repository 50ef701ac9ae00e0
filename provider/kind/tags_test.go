package kind

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/volume"
	"github.com/google/go-cmp/cmp"

	"github.com/stratos-sh/stratos/provider"
)

func tagsNow(t *testing.T, p *Provider, id string) map[string]string {
	t.Helper()
	got, err := p.GetInstance(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got.Tags
}

func (d *daemon) volumeNames() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, v := range d.volumes {
		names = append(names, v.Name)
	}
	return names
}

// TestNoChangeOfTagsIsLost: three replicas change tags at once, each through a provider of its own,
// as processes do.
func TestNoChangeOfTagsIsLost(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	id := string(launched(t, p, testClass(), "one").ID)
	want := tagsNow(t, p, id)
	var wg sync.WaitGroup
	for replica := range 3 {
		own := d.provider(t)
		for i := range 5 {
			key := fmt.Sprintf("tag-%d-%d", replica, i)
			want[key] = "set"
			wg.Go(func() {
				if err := own.UpdateInstanceTags(t.Context(), id, map[string]string{key: "set"}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if diff := cmp.Diff(want, tagsNow(t, p, id)); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestTagsOutliveTheProcessAndAnInterruptedChange: the highest generation counts, whatever was left
// beside it.
func TestTagsOutliveTheProcessAndAnInterruptedChange(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	id := string(launched(t, p, testClass(), "one").ID)
	d.refuse = func(method, path string) *refusal {
		if method == http.MethodDelete && strings.HasPrefix(path, "/volumes/") {
			return &refusal{http.StatusInternalServerError, "the process ended here"}
		}
		return nil
	}
	for i := range 3 {
		if err := p.UpdateInstanceTags(t.Context(), id, map[string]string{"stratos.sh/state": fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	d.mu.Lock()
	d.refuse = nil
	d.mu.Unlock()
	if n := len(d.volumeNames()); n != 3 {
		t.Fatalf("%d volumes, want all three generations", n)
	}
	other := d.provider(t)
	if got := tagsNow(t, other, id)["stratos.sh/state"]; got != "2" {
		t.Errorf("the state is %q, want the last", got)
	}
	if err := other.UpdateInstanceTags(t.Context(), id, map[string]string{"stratos.sh/state": "3"}); err != nil {
		t.Fatal(err)
	}
	if names := d.volumeNames(); len(names) != 1 {
		t.Errorf("volumes %q, want the last generation alone", names)
	}
}

func TestATagThatIsSetAlreadyWritesNothing(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	id := string(launched(t, p, testClass(), "one").ID)
	if err := p.UpdateInstanceTags(t.Context(), id, map[string]string{"stratos.sh/pool": "a"}); err != nil {
		t.Fatal(err)
	}
	if names := d.volumeNames(); len(names) != 0 {
		t.Errorf("volumes %q", names)
	}
}

// TestTagsGoWithTheirNode, and so do those of nodes that went without us. Others' volumes stay.
func TestTagsGoWithTheirNode(t *testing.T) {
	d := newDaemon(t)
	p := d.provider(t)
	kept, gone := string(launched(t, p, testClass(), "kept").ID), string(launched(t, p, testClass(), "gone").ID)
	for _, id := range []string{kept, gone} {
		if err := p.UpdateInstanceTags(t.Context(), id, map[string]string{"a": id}); err != nil {
			t.Fatal(err)
		}
	}
	left := map[string]string{labelTagsOf: "a container that kind removed", labelGeneration: "4", labelTags: "{}"}
	d.mu.Lock()
	d.volumes = append(d.volumes, &volume.Volume{Name: "somebody's"}, &volume.Volume{Name: "left",
		Labels: maps.Clone(left)})
	d.mu.Unlock()
	if err := p.TerminateInstance(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("stratos-tags-%.12s-1", d.box(kept).id), "somebody's"}
	if diff := cmp.Diff(want, d.volumeNames()); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	buried, err := p.GetInstance(t.Context(), gone)
	if err != nil || buried.State != provider.InstanceTerminated || buried.Tags["a"] != gone {
		t.Errorf("the terminated instance is %v, %v; want it with its last tags", buried, err)
	}
}

func TestTagsThatCannotBeReadAreAnError(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"no generation": {labelTags: "{}"},
		"no JSON":       {labelGeneration: "1", labelTags: "{"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			p := d.provider(t)
			id := string(launched(t, p, testClass(), "one").ID)
			labels[labelTagsOf] = d.box(id).id
			d.volumes = append(d.volumes, &volume.Volume{Name: "broken", Labels: labels})
			if list, err := p.ListInstances(t.Context(), nil); err == nil || len(list) > 0 ||
				!strings.Contains(err.Error(), "volume broken") {
				t.Errorf("%d instances, error %v: without its tags nobody knows whose it is", len(list), err)
			}
		})
	}
}
