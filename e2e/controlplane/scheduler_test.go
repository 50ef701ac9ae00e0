package controlplane

import (
	"errors"
	"testing"
)

func TestSchedulerConfig(t *testing.T) {
	for name, test := range map[string]struct {
		config string
		want   string
		err    error
	}{
		"placeholder": {
			config: "clientConnection:\n  kubeconfig: ${KUBECONFIG}\n  qps: 1000\n",
			want:   "clientConnection:\n  kubeconfig: \"/a b\"\n  qps: 1000\n",
		},
		"quoted placeholder": {
			config: "clientConnection: {kubeconfig: '${KUBECONFIG}'}\n",
			want:   "clientConnection: {kubeconfig: \"/a b\"}\n",
		},
		"path of the caller": {
			config: "clientConnection: {kubeconfig: /c}\n",
			want:   "clientConnection: {kubeconfig: /c}\n",
		},
		"no connection at all": {
			config: "podMaxBackoffSeconds: 2",
			want:   "podMaxBackoffSeconds: 2\nclientConnection: {kubeconfig: \"/a b\"}\n",
		},
		"empty means default": {
			config: " \n",
			want: "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
				"leaderElection:\n  leaderElect: false\nclientConnection:\n  kubeconfig: \"/a b\"\n",
		},
		"connection without kubeconfig needs a parser": {config: "clientConnection: {qps: 1000}\n", err: errNoKubeconfig},
		"JSON without kubeconfig needs a parser":       {config: `{"podMaxBackoffSeconds": 2}`, err: errNoKubeconfig},
		"JSON with placeholder": {
			config: `{"clientConnection": {"kubeconfig": "${KUBECONFIG}"}}`,
			want:   `{"clientConnection": {"kubeconfig": "/a b"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := schedulerConfig([]byte(test.config), "/a b")
			if !errors.Is(err, test.err) || string(got) != test.want {
				t.Errorf("got %q, %v\nwant %q, %v", got, err, test.want, test.err)
			}
		})
	}
}
