package parity

import (
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// informersOf gives the plugins the world's objects through the informers that they ask for. None
// is ever started, the objects are put into their stores: a running informer delivers from a
// goroutine, and a plugin that is asked before that answers for an emptier world. Kubernetes 1.37
// reads the stores alone; a version that waits for events would see no volumes, and every test here
// would say so.
func informersOf(world *World, client kubernetes.Interface) (informers.SharedInformerFactory, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	core, storage := factory.Core().V1(), factory.Storage().V1()
	filled := store{}
	put(&filled, core.Nodes().Informer(), world.Nodes)
	put(&filled, core.Namespaces().Informer(), world.Namespaces)
	put(&filled, core.PersistentVolumeClaims().Informer(), world.Claims)
	put(&filled, core.PersistentVolumes().Informer(), world.Volumes)
	put(&filled, storage.StorageClasses().Informer(), world.Classes)
	return factory, filled.err
}

// store remembers the first error of several puts.
type store struct{ err error }

func put[T any](s *store, informer cache.SharedIndexInformer, objects []*T) {
	for _, object := range objects {
		if s.err == nil {
			s.err = informer.GetIndexer().Add(object)
		}
	}
}
