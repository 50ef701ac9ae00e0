package framework

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/stratos-sh/stratos/e2e/controlplane"
	"github.com/stratos-sh/stratos/provider/aws/ec2test"
	"github.com/stratos-sh/stratos/provider/fake"
)

// errNotEC2: the rig's cloud speaks no EC2.
var errNotEC2 = errors.New("the rig runs without Provider: ProviderAWS")

func (r *Rig) onEC2() bool { return r.options.Provider == ProviderAWS }

// providerArgs are the flags by which Stratos finds the cloud.
func (r *Rig) providerArgs() []string {
	if r.onEC2() {
		return []string{"--cloud-provider=aws", "--install-crds"}
	}
	return []string{"--cloud-provider=fake", "--fake-endpoint=" + r.cloudProcess.URL()}
}

// providerEnv is what the SDK reads to find the cloud; the server checks that requests are signed,
// not by whom.
func (r *Rig) providerEnv() []string {
	if !r.onEC2() {
		return nil
	}
	return []string{
		"AWS_ENDPOINT_URL=" + r.cloudProcess.URL(),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=AKIDTEST", "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}
}

func (r *Rig) startCloud(ctx context.Context) error {
	kubeconfig, err := r.ControlPlane.UserKubeconfig(UserCloud, "system:masters")
	if err != nil {
		return err
	}
	address, err := controlplane.FreeAddress()
	if err != nil {
		return err
	}
	o := controlplane.Companion{
		Name: "fake-cloud", Path: r.binary, URL: "http://" + address, ReadyPath: "/healthz",
		Args: []string{"fake-cloud", "--zap-devel"},
	}
	if r.onEC2() {
		o.Name, o.Args = "ec2test", nil
		if o.Path, err = build(ctx, filepath.Base(r.dir), ec2Program(), r.options.Progress); err != nil {
			return err
		}
	}
	o.Args = append(append(o.Args, "--listen="+address, "--kubeconfig="+kubeconfig), r.options.Cloud...)
	if r.cloudProcess, err = r.start(ctx, o); err != nil {
		return err
	}
	r.Cloud = fake.NewClient(r.cloudProcess.URL())
	return nil
}

// StopCloud ends the rig's cloud and the machines and controllers that it plays. A caller needs it
// before another cloud plays in the same cluster: a Node that is not Ready and whose instance the
// rig's cloud does not know is deleted by its cloud controller.
func (r *Rig) StopCloud() error { return r.cloudProcess.Stop() }

// Script has EC2, EKS, IAM or STS answer an error until Unscript. It needs ProviderAWS.
func (r *Rig) Script(ctx context.Context, f ec2test.Failure) error { return r.tell(ctx, "/script", f) }

// Unscript ends what Script began.
func (r *Rig) Unscript(ctx context.Context) error { return r.tell(ctx, "/unscript", struct{}{}) }

// Reserve has EC2 keep the reservation, or changes the one with the id.
func (r *Rig) Reserve(ctx context.Context, c ec2test.CapacityReservation) error {
	return r.tell(ctx, "/reservation", c)
}

// SetCluster changes what EKS says of a cluster. It needs ProviderAWS.
func (r *Rig) SetCluster(ctx context.Context, c ec2test.Cluster) error {
	return r.tell(ctx, "/cluster", c)
}

// tell posts the value to the EC2 test server.
func (r *Rig) tell(ctx context.Context, path string, value any) error {
	if !r.onEC2() {
		return errNotEC2
	}
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = call(ctx, r.cloudProcess.URL()+path, body)
	return err
}

// EC2Requests is what EC2 was asked, oldest first. It needs ProviderAWS.
func (r *Rig) EC2Requests(ctx context.Context) ([]ec2test.Request, error) {
	if !r.onEC2() {
		return nil, errNotEC2
	}
	text, err := call(ctx, r.cloudProcess.URL()+"/requests", nil)
	if err != nil {
		return nil, err
	}
	var requests []ec2test.Request
	err = json.Unmarshal(text, &requests)
	return requests, err
}
