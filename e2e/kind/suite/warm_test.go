package suite

import (
	"slices"
	"testing"

	"github.com/stratos-sh/stratos/e2e/kind/cluster"
)

// TestPoolWarms: nodes join, what a pool wants on their disks gets there by their own kubelets, and
// their containers stop.
func TestPoolWarms(t *testing.T) {
	undisturbed(t)
	l := cluster.New(t)
	wanted := l.Push(t, "warm/wanted:1")
	everywhere := l.Push(t, "warm/everywhere:1")
	l.Namespace(t, "warm")
	// Before the pool, so that it goes after it: the kubelets of stopped nodes cannot end pods.
	l.Create(t, cluster.Everywhere("everywhere", "warm", "warm", everywhere))
	containers := makePool(t, l, poolOf("warm", 3, 3, wanted))

	for _, container := range containers {
		images := l.ImagesOnDisk(t, container)
		for _, image := range []string{wanted, everywhere} {
			if !slices.Contains(images, image) {
				t.Errorf("node %s is stopped without image %s", container, image)
			}
		}
	}
	// By the log of the registry each node pulled for itself, and nothing else brought it.
	for _, image := range []string{"warm/wanted:1", "warm/everywhere:1"} {
		if got := l.Pulls(t, image); got < len(containers) {
			t.Errorf("the registry was asked %d times for %s, want at least once for each of %d nodes", got, image,
				len(containers))
		}
	}
}
