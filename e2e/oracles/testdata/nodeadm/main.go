// A program for a copy of nodeadm's module. It reads the user data from the metadata service and
// configures the kubelet, by the code that `nodeadm init` calls for it. Below its root it writes the
// kubelet's files, and to its standard output the merged NodeConfig.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/api"
	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/configprovider"
	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/kubelet"
)

func main() {
	if filepath.Base(os.Args[0]) == "kubelet" { // nodeadm asks it for its version
		fmt.Println("Kubernetes v1.36.3")
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	provider, err := configprovider.BuildConfigProvider("imds://user-data")
	if err != nil {
		return err
	}
	config, err := provider.Provide()
	if err != nil {
		return fmt.Errorf("read the user data: %w", err)
	}
	details, err := api.GetIMDSInstanceDetails(context.Background(), imds.New(imds.Options{}))
	if err != nil {
		return err
	}
	config.Status.Instance = *details
	if err := api.ValidateNodeConfig(config); err != nil {
		return fmt.Errorf("validate the NodeConfig: %w", err)
	}
	if err := kubelet.NewKubeletDaemon(nil).Configure(config); err != nil {
		return fmt.Errorf("configure the kubelet: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(config.Spec)
}
