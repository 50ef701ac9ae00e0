package options

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// RESTConfig loads the kubeconfig; "" stands for KUBECONFIG, else ~/.kube/config, else the pod's
// own. Errors name the flag.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	// The API server's own priority and fairness is the limit: a burst of starts must not wait for a
	// client-side one.
	config.QPS = -1
	config.UserAgent = "stratos"
	return config, nil
}
