package suite

import (
	"slices"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/lab"
)

// TestPoolWarms: nodes join, what a pool wants on their disks gets there by their own kubelets, and their containers stop.
func TestPoolWarms(t *testing.T) {
	l := lab.New(t)
	wanted := l.Push(t, "warm/wanted:1")
	everywhere := l.Push(t, "warm/everywhere:1")
	l.Namespace(t, "warm")
	daemons := lab.Everywhere("everywhere", "warm", "warm", everywhere)
	containers := makePool(t, l, poolOf("warm", 3, 3, wanted), daemons)

	for _, container := range containers {
		images := l.ImagesOnDisk(t, container)
		for _, image := range []string{wanted, everywhere} {
			if !slices.Contains(images, image) {
				t.Errorf("node %s is stopped and has %v, not %s", container, images, image)
			}
		}
		if state := lab.MustDocker(t, "inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", container); state != "exited 0" && state != "exited 130" {
			t.Logf("node %s: %s", container, state)
		}
	}
	if got := l.Pulls(t, "warm/wanted:1"); got == 0 {
		t.Error("the registry was asked for no part of the image, so somebody else brought it")
	}
}
