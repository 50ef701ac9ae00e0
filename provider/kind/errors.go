package kind

import (
	"context"
	"errors"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/stratos-sh/stratos/provider"
)

// machineFull are Docker's words for a machine that has no room for one more node.
func machineFull() []string {
	return []string{
		"no space left on device", "cannot allocate memory", "no available IPv4 addresses", "could not find an available",
		"too many open files", "resource temporarily unavailable",
	}
}

// failure translates what Docker said of making or starting a container with these labels. What has
// no type of its own stays as it is.
func failure(err error, labels map[string]string) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, words := range machineFull() {
		if strings.Contains(err.Error(), words) {
			return &provider.InsufficientCapacityError{Type: labels[labelClass], Zone: labels[labelCluster], Err: err}
		}
	}
	return err
}

// gone reports whether Docker says that the container does not exist.
func gone(err error) bool { return errdefs.IsNotFound(err) }

// leaving reports whether Docker says that the container is being removed already.
func leaving(err error) bool {
	return errdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress")
}
