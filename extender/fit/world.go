package fit

// World is all that a check looks at beyond one node.
type World struct {
	// Nodes are all nodes whose labels make topology domains and whose pods count.
	Nodes []*Node
	// Namespaces are the labels of the existing namespaces, for namespaceSelector.
	Namespaces map[string]map[string]string
}

// View is one pod's view of the world: the counts by topology domain, made at the first check that
// needs them. It is for one goroutine, and stale once a pod of the world is added or removed.
type View struct {
	pod   *Pod
	world *World

	pods   *podCounts
	spread []spreadCount
}

// domain is one value of one topology key.
type domain struct{ key, value string }

// View starts a view. The nodes that it is asked about are nodes of the world.
func (w *World) View(pod *Pod) *View { return &View{pod: pod, world: w} }

// Fits makes every check on one node, in the order of the scheduler's default profile, and returns
// the first refusal.
func (v *View) Fits(node *Node) *Refusal {
	name := string(node.Name)
	// The order is that of kube-scheduler's default profile, what it finds before it looks at nodes
	// first. So the first refusal is the one that it would report.
	checks := [...]func() *Refusal{
		func() *Refusal { return blocked(v.pod.Volumes) },
		func() *Refusal { return v.pod.malformed },
		func() *Refusal { return cordoned(v.pod.Tolerations, node.Unschedulable) },
		func() *Refusal { return v.pod.choice.named(name) },
		func() *Refusal { return tainted(v.pod.Tolerations, node.Taints) },
		func() *Refusal { return v.pod.choice.refuses(name, node.Labels) },
		func() *Refusal { return CheckPorts(v.pod, node) },
		func() *Refusal { return CheckResources(v.pod, node) },
		func() *Refusal { return CheckVolumes(v.pod, node) },
		func() *Refusal { return v.SpreadOver(node) },
		func() *Refusal { return v.PodAffinity(node) },
		func() *Refusal { return v.AntiAffinity(node) },
	}
	for _, check := range checks {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

// self reports whether a placed pod is the pod that asks: a pod that already has room here does not
// keep itself away.
func (v *View) self(placed *Placed) bool { return placed.UID != "" && placed.UID == v.pod.UID }
