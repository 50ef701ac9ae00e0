package webhook

import (
	"crypto/tls"
	"errors"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// The paths of the markers in doc.go.
const (
	pathDefaultNodePool       = "/mutate-stratos-sh-v1alpha1-nodepool"
	pathValidateNodePool      = "/validate-stratos-sh-v1alpha1-nodepool"
	pathDefaultAWSNodeClass   = "/mutate-stratos-sh-v1alpha1-awsnodeclass"
	pathValidateAWSNodeClass  = "/validate-stratos-sh-v1alpha1-awsnodeclass"
	pathValidateKindNodeClass = "/validate-stratos-sh-v1alpha1-kindnodeclass"
	pathPods                  = "/mutate--v1-pod"
)

// Setup is what SetupWithManager needs.
type Setup struct {
	// CertDir is the folder of the serving certificate.
	CertDir string
	// Namespace is Stratos's own, whose pods are never given to its scheduler.
	Namespace string
	// SchedulerName is what pods of opted-in namespaces are given to.
	SchedulerName string
	// NodeClasses are the kinds of node classes that the cloud serves.
	NodeClasses []string
}

// NewServer is the server that the manager runs on every replica: port, and a folder with tls.crt
// and tls.key, which are reread when they change.
func NewServer(port int, certDir string) webhook.Server {
	return webhook.NewServer(webhook.Options{
		Port: port, CertDir: certDir,
		// An API server asks over a few long connections, so HTTP/2 brings only its larger surface.
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	})
}

// SetupWithManager registers the webhooks with the manager's server, and its being up as a part of
// readiness.
func SetupWithManager(mgr ctrl.Manager, s Setup) error {
	if s.SchedulerName == "" {
		return errors.New("webhook: no scheduler to give pods to")
	}
	if err := RegisterMetrics(metrics.Registry, s.CertDir); err != nil {
		return err
	}
	decoder := admission.NewDecoder(mgr.GetScheme())
	look := lookup{cached: mgr.GetClient(), live: mgr.GetAPIReader(), kinds: s.NodeClasses}
	server := mgr.GetWebhookServer()
	server.Register(pathDefaultNodePool, handle(defaulting[*v1alpha1.NodePool]{decoder, newOf[v1alpha1.NodePool],
		DefaultNodePool}))
	server.Register(pathValidateNodePool, admission.WithValidator(mgr.GetScheme(), poolValidator{look}))
	server.Register(pathDefaultAWSNodeClass, handle(defaulting[*v1alpha1.AWSNodeClass]{decoder,
		newOf[v1alpha1.AWSNodeClass], DefaultAWSNodeClass}))
	server.Register(pathValidateAWSNodeClass, admission.WithValidator(mgr.GetScheme(), classValidator{look}))
	server.Register(pathValidateKindNodeClass, admission.WithValidator(mgr.GetScheme(), kindClassValidator{look}))
	server.Register(pathPods, handle(optIn{
		decoder: decoder, lookup: look, schedulerName: s.SchedulerName,
		protected: []string{"kube-system", certManagerNamespace, s.Namespace},
	}))
	return mgr.AddReadyzCheck("webhook", server.StartedChecker())
}

// handle answers a panic with an error in place of a closed connection.
func handle(h admission.Handler) *admission.Webhook {
	return (&admission.Webhook{Handler: h}).WithRecoverPanic(true)
}

func newOf[T any, P interface {
	*T
	client.Object
}]() P {
	return new(T)
}
