// Package userdata writes the user data with which an EC2 instance joins a cluster by itself,
// merged with what the user wrote. It also says what a user may not write there, and why. The
// package is pure: no client, context, logger or clock.
package userdata

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MaxBytes is EC2's limit for user data, before it is encoded with base64.
const MaxBytes = 16 << 10

// Cluster is what an instance must know to reach the API server.
type Cluster struct {
	Name string
	// Endpoint is the https URL of the API server.
	Endpoint string
	// CertificateAuthority is base64 of PEM, as eks:DescribeCluster returns it.
	CertificateAuthority string
	// ServiceCIDR is the range of the cluster's Services. The DNS address is derived from it.
	ServiceCIDR string
}

// Kubelet is what the kubelet registers its node with.
type Kubelet struct {
	// Labels are those that a kubelet may set, see RegistersLabel.
	Labels map[string]string
	// Taints are all taints of the new node, those of Stratos included. Of two taints with the same
	// key and effect the first is kept, because the API server refuses a node with both.
	Taints []corev1.Taint
	// MaxPods is the most pods on the node. 0 leaves it to the image.
	MaxPods int32
	// ExtraArgs are flags of the form --name=value. Bottlerocket has none.
	ExtraArgs []string
}

// Problem is a refusal or a warning about one field of an AWSNodeClass.
type Problem struct {
	// Field is relative to spec: userData, bootstrap.kubeletExtraArgs[0].
	Field string
	// Reason says what is wrong and what is allowed.
	Reason string
}

func (p Problem) Error() string { return "spec." + p.Field + ": " + p.Reason }

const (
	fieldUserData = "userData"
	fieldArgs     = "bootstrap.kubeletExtraArgs"
)

// inUserData is a problem of the user's own text.
func inUserData(format string, args ...any) Problem {
	return Problem{Field: fieldUserData, Reason: fmt.Sprintf(format, args...)}
}

// joined makes an error of the problems, in which errors.As finds each. Without any it is nil.
func joined(problems []Problem) error {
	var errs []error
	for _, p := range problems {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// checkSize refuses what EC2 would refuse. what names the text.
func checkSize(what, text string) []Problem {
	if len(text) <= MaxBytes {
		return nil
	}
	return []Problem{inUserData("%s has %d bytes; EC2 allows %d, so fetch large files at boot instead",
		what, len(text), MaxBytes)}
}

// uniqueTaints sorts the taints, so that equal sets give equal bytes.
func uniqueTaints(taints []corev1.Taint) []corev1.Taint {
	sorted := slices.Clone(taints)
	slices.SortStableFunc(sorted, func(a, b corev1.Taint) int {
		return strings.Compare(taintID(a), taintID(b))
	})
	return slices.CompactFunc(sorted, func(a, b corev1.Taint) bool { return taintID(a) == taintID(b) })
}

func taintID(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }
