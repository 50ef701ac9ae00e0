package parity

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/extender/fit"
)

// everything is fit's opinion on all it checks.
func everything(world *World) Opinion {
	digested, storage := digest(world), storageOf(world)
	return func(pod *corev1.Pod) ([]Verdict, error) {
		asking := fit.NewPod(pod, nil)
		asking.Volumes = fit.VolumesOf(pod, storage)
		view := digested.View(asking)
		verdicts := make([]Verdict, 0, len(digested.Nodes))
		for _, node := range digested.Nodes {
			verdicts = append(verdicts, ofRefusal(view.Fits(node)))
		}
		return verdicts, nil
	}
}

// taintsAndCordons is fit's opinion where the extender alone decides.
func taintsAndCordons(world *World) Opinion {
	return func(pod *corev1.Pod) ([]Verdict, error) {
		verdicts := make([]Verdict, 0, len(world.Nodes))
		for _, node := range world.Nodes {
			verdicts = append(verdicts, ofRefusal(fit.Schedulable(pod, node.Spec.Taints, node.Spec.Unschedulable)))
		}
		return verdicts, nil
	}
}

// digest reads the world as Stratos does: bound pods as they are, claimed ones by their claims.
func digest(world *World) *fit.World {
	digested := &fit.World{Namespaces: map[string]map[string]string{}}
	for _, namespace := range world.Namespaces {
		digested.Namespaces[namespace.Name] = namespace.Labels
	}
	for _, node := range world.Nodes {
		n := &fit.Node{
			Name: v1alpha1.NodeName(node.Name), Labels: node.Labels, Taints: node.Spec.Taints,
			Unschedulable: node.Spec.Unschedulable, Allocatable: fit.FromList(node.Status.Allocatable),
		}
		for _, pod := range on(node, world.Placed) {
			n.Pods = append(n.Pods, fit.NewPlaced(pod))
			n.Used.Add(fit.Occupied(pod))
			n.Ports = append(n.Ports, fit.HostPorts(pod)...)
		}
		for _, pod := range on(node, world.Promised) {
			n.Place(fit.NewPod(pod, nil))
		}
		digested.Nodes = append(digested.Nodes, n)
	}
	return digested
}

func on(node *corev1.Node, pods []*corev1.Pod) []*corev1.Pod {
	var there []*corev1.Pod
	for _, pod := range pods {
		if pod.Spec.NodeName == node.Name {
			there = append(there, pod)
		}
	}
	return there
}

func storageOf(world *World) fit.Storage {
	return fit.Storage{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			return find(world.Claims, func(c *corev1.PersistentVolumeClaim) bool {
				return c.Namespace == namespace && c.Name == name
			})
		},
		Volume: func(name string) *corev1.PersistentVolume {
			return find(world.Volumes, func(v *corev1.PersistentVolume) bool { return v.Name == name })
		},
		Class: func(name string) *storagev1.StorageClass {
			return find(world.Classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
		},
		Volumes: func(class string) []*corev1.PersistentVolume {
			var of []*corev1.PersistentVolume
			for _, volume := range world.Volumes {
				if volume.Spec.StorageClassName == class {
					of = append(of, volume)
				}
			}
			return of
		},
	}
}

// find returns the first that is meant, nil when there is none.
func find[T any](objects []*T, meant func(*T) bool) *T {
	for _, object := range objects {
		if meant(object) {
			return object
		}
	}
	return nil
}
