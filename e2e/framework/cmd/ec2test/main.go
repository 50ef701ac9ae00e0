// Command ec2test runs the EC2 test server and the machines of its instances as a process of its
// own. At / it speaks the protocols of EC2, IAM and STS, at /clusters that of EKS, at /v1 the API
// of `stratos fake-cloud` about the same instances, by which tests look at the cloud and trouble
// it, and at /requests it tells what EC2 was asked. At /script, /unscript and /cluster tests change
// what it answers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/fake"
	"github.com/stratos-sh/stratos/provider/simcloud"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "ec2test:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var f options.Fake
	fs := pflag.NewFlagSet("ec2test", pflag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:9555", "address of the API; loopback, since it checks no signature's secret")
	kubeconfig := fs.String("kubeconfig", "", "kubeconfig of the cluster that the machines join")
	unlimited := fs.StringSlice("unlimited", nil,
		"actions without a rate limit, such as RunInstances; the others have EC2's published one")
	f.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	o, err := f.Cloud()
	if err != nil {
		return err
	}
	sim := simcloud.New(simcloud.Options{Types: o.Types, Times: o.Times, Capacity: o.Capacity,
		ProviderPrefix: ec2test.ProviderPrefix, ClusterName: ec2test.ClusterName})
	machines, err := machinesOf(sim, *kubeconfig)
	if err != nil {
		return err
	}
	// As long as a stop takes: what has been terminated is gone from the account no sooner.
	server := ec2test.New(sim, ec2test.Options{Limits: limitsBut(*unlimited)})
	return fake.ServeHandler(ctx, *listen, handler(server, fake.Over(sim, fake.Options{})), machines, func(at net.Addr) {
		fmt.Fprintln(os.Stdout, "listening on http://"+at.String())
	})
}

// limitsBut are the published limits without those of the actions.
func limitsBut(unlimited []string) *ec2test.Limits {
	limits := ec2test.Published()
	for _, action := range unlimited {
		delete(limits.Requests, ec2test.Action(action))
		delete(limits.Resources, ec2test.Action(action))
	}
	return limits
}

// machinesOf are the machines behind the cloud, as members of the cluster.
func machinesOf(sim *simcloud.Cloud, kubeconfig string) (*fake.Machines, error) {
	config, err := options.RESTConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent, config.QPS = "stratos-fake-machines", -1 // told apart from Stratos in an audit log
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("machines: %w", err)
	}
	return fake.NewMachines(sim, fake.MachinesOptions{Client: clientset, Log: ctrl.Log.WithName("machines")}), nil
}

func handler(server *ec2test.Server, control *fake.Cloud) http.Handler {
	behind := fake.Handler(control)
	mux := http.NewServeMux()
	mux.Handle("/{$}", server)
	mux.Handle("/clusters/", server)
	mux.Handle("/", behind)
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(server.Requests()) // an error means that the client has gone
	})
	mux.HandleFunc("POST /script", posted(func(f ec2test.Failure) { server.Script(f) }))
	mux.HandleFunc("POST /unscript", posted(func(struct{}) { server.Unscript() }))
	mux.HandleFunc("POST /reservation", posted(func(r ec2test.CapacityReservation) { server.Reserve(r) }))
	mux.HandleFunc("POST /cluster", posted(func(c ec2test.Cluster) { server.SetCluster(c) }))
	return mux
}

// posted calls the function with what was posted as JSON.
func posted[T any](take func(T)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var value T
		if err := json.NewDecoder(r.Body).Decode(&value); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		take(value)
	}
}
