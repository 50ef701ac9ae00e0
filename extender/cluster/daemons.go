package cluster

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/extender/fit"
)

// SetDaemonSet takes in an added or changed DaemonSet: its pods take room on nodes that do not run
// yet, or where they have not come yet.
func (s *State) SetDaemonSet(set *appsv1.DaemonSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	old := s.sets[key]
	s.sets[key] = set
	deleted := func(set *appsv1.DaemonSet) bool { return set.DeletionTimestamp != nil }
	if old != nil && old.UID == set.UID && old.Generation == set.Generation && deleted(old) == deleted(set) {
		return // only the status changed, as it does with each of its pods
	}
	s.readDaemons()
}

// DeleteDaemonSet takes in that a DaemonSet is gone.
func (s *State) DeleteDaemonSet(set *appsv1.DaemonSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, client.ObjectKeyFromObject(set))
	s.readDaemons()
}

// readDaemons recomputes what the pods of DaemonSets take on the nodes of pools. The caller holds
// mu.
func (s *State) readDaemons() {
	sets := slices.SortedFunc(maps.Values(s.sets), func(a, b *appsv1.DaemonSet) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	s.daemons = make([]*fit.Daemon, len(sets))
	for i, set := range sets {
		s.daemons[i] = fit.NewDaemon(set)
	}
	for _, e := range s.nodes {
		if e.node != nil && e.node.InPool() {
			s.rebuildFromNode(e)
		}
	}
}

// Daemons are the cluster's DaemonSets, sorted by name. The list is never changed.
func (s *State) Daemons() []*fit.Daemon {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.daemons
}
