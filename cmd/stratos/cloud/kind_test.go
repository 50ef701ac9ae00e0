package cloud

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
	"github.com/stratos-sh/stratos/provider"
)

// TestKindIsTheDaemonOfDockerHost: the daemon is the one that DOCKER_HOST names, it serves
// KindNodeClass alone, and every call is counted, those that know the class too.
func TestKindIsTheDaemonOfDockerHost(t *testing.T) {
	docker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if !strings.HasSuffix(r.URL.Path, "/_ping") {
			_, _ = w.Write([]byte("[]"))
		}
	}))
	defer docker.Close()
	t.Setenv("DOCKER_HOST", "tcp://"+docker.Listener.Addr().String())
	o := parsed(t, "--cluster-name=test", "--cloud-provider=kind")
	if err := o.Validate(); err != nil || o.InstallCRDs {
		t.Errorf("install CRDs %v, %v; want it left to the chart", o.InstallCRDs, err)
	}
	registry := prometheus.NewRegistry()
	cloud, err := New(t.Context(), o, nil, registry)
	if err != nil {
		t.Fatal(err)
	}
	if len(cloud.Classes) != 1 || cloud.Classes[0].Name != v1alpha1.KindKindNodeClass {
		t.Fatalf("classes %v", cloud.Classes)
	}
	class := &v1alpha1.KindNodeClass{Spec: v1alpha1.KindNodeClassSpec{Cluster: "nobody"}}
	if err := cloud.Classes[0].Resolve(t.Context(), class); !provider.IsInvalidConfig(err) {
		t.Errorf("resolve: %v, want the daemon's word that there is no such cluster", err)
	}
	if _, err := cloud.Classes[0].Launch(t.Context(), class, provider.LaunchRequest{}); !provider.IsInvalidConfig(err) {
		t.Errorf("launch: %v, want the daemon's word that there is no such cluster", err)
	}
	if err := cloud.Provider.StartInstance(t.Context(), "nobody"); !provider.IsNotFound(err) {
		t.Errorf("start: %v, want an InstanceNotFoundError", err)
	}
	if n, err := testutil.GatherAndCount(registry, "stratos_cloud_provider_calls_total"); err != nil || n != 3 {
		t.Errorf("%d operations counted, %v, want ResolveNodeClass, RunInstances and StartInstances", n, err)
	}
}

func TestAWrongDockerHostIsNamed(t *testing.T) {
	t.Setenv("DOCKER_HOST", "nowhere")
	o := parsed(t, "--cluster-name=test", "--cloud-provider=kind")
	if _, err := New(t.Context(), o, nil, prometheus.NewRegistry()); err == nil ||
		!strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Errorf("error %v, want DOCKER_HOST in it", err)
	}
}
