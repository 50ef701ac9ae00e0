package controlplane

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// newProcess describes a component that serves at the port; the caller starts it.
func (c *ControlPlane) newProcess(name, path, scheme, readyPath string, at *port, args []string) *Process {
	url := scheme + "://" + at.address()
	// Small heaps grow quickly while a component starts: fewer collections save a quarter of its CPU
	// time. The second value bounds what large ones take for it.
	env := []string{"GOGC=400", "GOMEMLIMIT=2GiB"}
	if c.options.Threads > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(c.options.Threads))
	}
	return &Process{
		name: name, path: path, args: args, url: url, env: env,
		logPath: filepath.Join(c.logDir, name+".log"),
		ready:   c.client.probe(url + readyPath),
		timeout: startTimeout,
	}
}

func (c *ControlPlane) etcdProcess() *Process {
	client, peer := "http://"+c.ports.etcd.address(), "http://"+c.ports.etcdPeer.address()
	return c.newProcess("etcd", c.binaries.Etcd, "http", "/readyz", c.ports.etcd, []string{
		"--name=stratos",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=stratos=" + peer,
		"--socket-reuse-port=true", // the port is reserved by a socket of ours
		// An fsync per write would make every latency that is measured here that of the disk.
		"--unsafe-no-fsync=true",
		// events of a burst of pods on thousands of nodes pass the default of 2 GiB
		"--quota-backend-bytes=" + strconv.Itoa(8<<30),
		"--log-level=warn",
	})
}

func (c *ControlPlane) apiServerProcess() *Process {
	authorization := "RBAC"
	var admission []string
	if c.options.NodeAuthorizer {
		authorization = "Node,RBAC"
		admission = []string{"--enable-admission-plugins=NodeRestriction"} // added to the default ones
	}
	args := []string{
		"--etcd-servers=http://" + c.ports.etcd.address(),
		"--authorization-mode=" + authorization,
		"--client-ca-file=" + c.pki("ca.crt"),
		"--service-account-key-file=" + c.pki("service-accounts.key"),
		"--service-account-signing-key-file=" + c.pki("service-accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--requestheader-client-ca-file=" + c.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.pki("front-proxy.crt"),
		"--proxy-client-key-file=" + c.pki("front-proxy.key"),
		"--allow-privileged=true", // DaemonSets of CNI agents are, and tests apply them as they are
		// A loopback address is no valid endpoint, so the reconciler would complain every 10 s.
		"--endpoint-reconciler-type=none",
		// The defaults (400 and 200) make simulated kubelets of thousands of nodes queue behind each
		// other on one machine.
		"--max-requests-inflight=1600",
		"--max-mutating-requests-inflight=800",
		// Without it a stop waits up to 60 s for clients to end their watches, which they never do; with
		// it 2 s.
		"--shutdown-send-retry-after=true",
	}
	args = append(args, c.servingArgs(c.ports.apiServer)...)
	args = append(args, admission...)
	args = append(args, c.auditArgs()...)
	args = append(args, c.options.APIServerArgs...)
	return c.newProcess("kube-apiserver", c.binaries.APIServer, "https", "/readyz", c.ports.apiServer, args)
}

func (c *ControlPlane) controllerManagerProcess() *Process {
	args := []string{
		"--kubeconfig=" + c.kubeconfigPath("controller-manager"),
		"--leader-elect=false", // there is one; waiting for an old lease would slow down its restart
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + c.pki("service-accounts.key"),
		"--root-ca-file=" + c.pki("ca.crt"),
		"--cluster-signing-cert-file=" + c.pki("ca.crt"),
		"--cluster-signing-key-file=" + c.pki("ca.key"),
		"--allocate-node-cidrs=false",
		// Per controller. The defaults (20 and 30) stretch a burst of 1000 pods to most of a minute.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
	args = append(args, c.servingArgs(c.ports.controllerManager)...)
	args = append(args, c.delegationArgs("controller-manager")...)
	args = append(args, durationArg("--node-monitor-grace-period", c.options.NodeMonitorGracePeriod)...)
	args = append(args, durationArg("--node-monitor-period", c.options.NodeMonitorPeriod)...)
	args = append(args, c.options.ControllerManagerArgs...)
	return c.newProcess("kube-controller-manager", c.binaries.ControllerManager, "https", "/healthz",
		c.ports.controllerManager, args)
}

// servingArgs are the same for every Kubernetes component. One certificate serves all: they differ
// by port only.
func (c *ControlPlane) servingArgs(at *port) []string {
	return []string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(at.number),
		"--permit-port-sharing=true", // the port is reserved by a socket of ours
		"--tls-cert-file=" + c.pki("serving.crt"),
		"--tls-private-key-file=" + c.pki("serving.key"),
	}
}

// delegationArgs let a component ask the API server who may read its metrics.
func (c *ControlPlane) delegationArgs(kubeconfig string) []string {
	path := c.kubeconfigPath(kubeconfig)
	return []string{"--authentication-kubeconfig=" + path, "--authorization-kubeconfig=" + path}
}

func durationArg(flag string, value time.Duration) []string {
	if value == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s=%s", flag, value)}
}

func (c *ControlPlane) pki(file string) string { return filepath.Join(c.dir, "pki", file) }
