package subcommand

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/stratos-sh/stratos/cmd/stratos/options"
	"github.com/stratos-sh/stratos/stacks/manifests"
	"github.com/stratos-sh/stratos/stacks/render"
	"github.com/stratos-sh/stratos/webhook"
)

func stackManifests() *cobra.Command {
	cmd := &cobra.Command{Use: "manifests", Short: "Print the objects by which a release is used", Args: cobra.NoArgs}
	cmd.AddCommand(stackManifestsStack(), stackManifestsCluster(), stackManifestsPool())
	return cmd
}

func stackManifestsStack() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "clusterstack FOLDER",
		Short: "Print the ClusterStack of a release or of a stack, for a management cluster with the operator",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRelease(args[0])
			if err != nil {
				return err
			}
			text, err := manifests.ClusterStack(r, namespace)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the ClusterStack and of the class")
	return cmd
}

func stackManifestsCluster() *cobra.Command {
	var o manifests.Options
	var variables []string
	cmd := &cobra.Command{
		Use:   "cluster FOLDER",
		Short: "Print a Cluster of the class of a release or of a stack, for the management cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			helm, err := render.FindHelm()
			if err != nil {
				return err
			}
			r, err := openRelease(args[0])
			if err != nil {
				return err
			}
			class, err := helm.Class(cmd.Context(), r, o.Namespace)
			if err != nil {
				return err
			}
			known, err := manifests.Variables(class)
			if err != nil {
				return err
			}
			if o.Values, err = manifests.Values(known, variables); err != nil {
				return err
			}
			text, err := manifests.Cluster(r, o)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Cluster, "name", "", "name of the Cluster (required)")
	fs.StringVarP(&o.Namespace, "namespace", "n", "default", "namespace of the Cluster and of the class")
	fs.IntVar(&o.ControlPlaneReplicas, "control-plane-replicas", 3, "number of control-plane machines, an odd one")
	fs.StringArrayVar(&variables, "variable", nil, "name=value of a variable of the class; may be repeated")
	cobra.CheckErr(cmd.MarkFlagRequired("name"))
	return cmd
}

// poolOptions are the flags of manifests pool, and with them what its template knows.
type poolOptions struct {
	Name, InstanceType, RootDevice string
	PoolSize, MinStandby           int32
	// Cluster and the others are read from the Cluster and the kubeconfig.
	Cluster, Region, ImageOwner, InstanceProfile, RootVolumeSize string
	Endpoint, CertificateAuthority                               string
	TagPrefix                                                    string
}

// tagPrefix begins the tags that Cluster API's provider for AWS puts on subnets and groups.
const tagPrefix = "sigs.k8s.io/cluster-api-provider-aws/"

//go:embed pool.yaml.tmpl
var poolTemplate string

func stackManifestsPool() *cobra.Command {
	o := poolOptions{TagPrefix: tagPrefix}
	var file, kubeconfig string
	cmd := &cobra.Command{
		Use:   "pool",
		Short: "Print an AWSNodeClass and a NodePool for a cluster of the stack for EC2, for that cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.MinStandby < 0 || o.MinStandby > o.PoolSize {
				return fmt.Errorf("--min-standby %d must be 0 to --pool-size %d", o.MinStandby, o.PoolSize)
			}
			objects, err := readClusterObjects(cmd, file)
			if err != nil {
				return err
			}
			if err := errors.Join(o.readCluster(objects), o.readKubeconfig(kubeconfig)); err != nil {
				return err
			}
			text, err := o.text()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&file, "filename", "f", "", clusterFileUsage)
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the new cluster, of which endpoint and certificate authority are printed (required)")
	fs.StringVar(&o.Name, "name", "workers", "name of the AWSNodeClass and of the NodePool")
	fs.StringVar(&o.InstanceType, "instance-type", "", "EC2 instance type; default: the Cluster's workerInstanceType")
	fs.StringVar(&o.RootDevice, "root-device", "/dev/sda1", "root device of the node image, on Debian /dev/xvda")
	fs.Int32Var(&o.PoolSize, "pool-size", 5, "largest number of instances")
	fs.Int32Var(&o.MinStandby, "min-standby", 2, "number of stopped instances that are kept ready")
	cobra.CheckErr(errors.Join(cmd.MarkFlagRequired("filename"), cmd.MarkFlagRequired("kubeconfig")))
	return cmd
}

func (o *poolOptions) readCluster(objects render.Objects) error {
	o.Cluster = objects.Field("metadata", "name")
	fields := map[string]*string{"region": &o.Region, "imageOwner": &o.ImageOwner,
		"nodeInstanceProfile": &o.InstanceProfile, "workerRootVolumeSize": &o.RootVolumeSize}
	if o.InstanceType == "" {
		fields["workerInstanceType"] = &o.InstanceType
	}
	for name, value := range objects.Variables() {
		if into := fields[name]; into != nil {
			*into = fmt.Sprint(value)
			delete(fields, name)
		}
	}
	if len(fields) > 0 {
		return fmt.Errorf("spec.topology.variables of the Cluster %s must have %s: take the Cluster from the API server, or "+
			"from stratos stack manifests cluster", o.Cluster, inWords(slices.Sorted(maps.Keys(fields))))
	}
	return nil
}

func (o *poolOptions) readKubeconfig(file string) error {
	config, err := options.RESTConfig(file)
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	o.Endpoint, o.CertificateAuthority = config.Host, base64.StdEncoding.EncodeToString(config.CAData)
	return nil
}

// text is checked as the webhooks check it. What the definitions say is left to the API server.
func (o *poolOptions) text() ([]byte, error) {
	parsed, err := template.New("pool").Parse(poolTemplate)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, o); err != nil {
		return nil, err
	}
	found, err := objectsOfFile(bytes.NewReader(text.Bytes()))
	if err != nil {
		return nil, err
	}
	class, pool := &found.classes[0], &found.pools[0]
	webhook.DefaultAWSNodeClass(class)
	webhook.DefaultNodePool(pool)
	ofClass, _ := webhook.ValidateAWSNodeClass(class, webhook.AWSNodeClassContext{})
	ofPool, _ := webhook.ValidateNodePool(pool, webhook.NodePoolContext{Class: class})
	return text.Bytes(), errors.Join(ofClass.ToAggregate(), ofPool.ToAggregate())
}
