// Package controlplane builds and runs a real Kubernetes control plane on the loopback interface:
// etcd, kube-apiserver, kube-controller-manager and any number of kube-schedulers, each an
// operating-system process of its own, made from unmodified upstream modules at the versions that
// this module's go.mod pins.
//
// It exists because what Stratos guarantees depends on code that no fake client runs: admission,
// RBAC, the scheduler's queues, the node lifecycle controller. Demo, tests and benchmarks use it;
// nothing that is shipped does.
//
// # Use
//
//	plane, err := controlplane.Start(ctx, controlplane.Options{DefaultScheduler: true})
//	if err != nil { ... }
//	defer plane.Stop()
//	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig())
//
// The first Start on a machine builds the binaries (4 to 5 minutes on two cores, see [Build]);
// later ones take about four seconds. One control plane takes about 500 MiB of memory. Linux and
// macOS are supported; only Linux ends the components when the parent is killed and reserves ports
// without a race.
//
// Older minors are built from the module files in minors (see [BuildMinor]): API server, controller
// manager and scheduler of that minor, on the same etcd.
//
// The package imports only the standard library and the go command builds the binaries from the
// embedded module files, so a module that requires this one compiles nothing of k8s.io/kubernetes.
//
// # What is real
//
// API server with TLS, client certificates, RBAC, the default admission plugins (ServiceAccount,
// Priority, DefaultTolerationSeconds, TaintNodesByCondition, PodSecurity, ResourceQuota, webhooks,
// CEL policies), priority and fairness, the watch cache and the aggregation layer; all default
// controllers, each under its own service account; stock schedulers with any configuration.
//
// # What is not simulated
//
//   - Kubelets. Nodes and pods are status that a test has to write: a bound pod stays Pending until
//     a simulated kubelet says otherwise, and a Node whose lease is not renewed turns NotReady
//     after the grace period.
//   - The Node authorizer and NodeRestriction are off by default, because one client usually plays
//     all kubelets; see [Options].NodeAuthorizer.
//   - The cloud: there is no cloud-controller-manager that initializes nodes, sets provider IDs or
//     removes the shutdown taint.
//   - The network: no CNI, kube-proxy or DNS, and no node CIDRs. Service addresses are allocated
//     but lead nowhere, hence webhooks have to be registered with a url, not with a service
//     reference, and the kubernetes Service has no endpoints.
//   - Durability: etcd does not fsync. The data survives the death of a process (a killed API
//     server or etcd comes back with all of it), not that of the machine.
//   - High availability: one member each, no leader election for kube-controller-manager and the
//     default scheduler.
//   - Secrecy on a shared machine: etcd listens on loopback without authentication.
package controlplane
