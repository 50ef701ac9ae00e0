// Package oracles compares the user data that provider/userdata writes with what others' code makes
// of it: nodeadm, Karpenter, cloud-init, and the types of the kubelet. It has tests only. They read
// the golden files of provider/userdata, so this module keeps its own versions of Kubernetes.
package oracles
