package extender

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
)

func validateLease(o SchedulerConfigOptions) error {
	if o.LeaseName == stockLeaseName {
		return fmt.Errorf("leaseName: %q is the lease of the control plane's own scheduler: one of the two would never run",
			o.LeaseName)
	}
	if !o.LeaderElect {
		return nil
	}
	var errs []error
	for _, problem := range validation.IsDNS1123Subdomain(o.LeaseName) {
		errs = append(errs, fmt.Errorf("leaseName: %q: %s", o.LeaseName, problem))
	}
	for _, problem := range validation.IsDNS1123Label(o.LeaseNamespace) {
		errs = append(errs, fmt.Errorf("leaseNamespace: %q: %s", o.LeaseNamespace, problem))
	}
	return errors.Join(errs...)
}

func validateWiring(o SchedulerConfigOptions) error {
	switch o.Wiring {
	case WiringDedicated:
		return nil
	case WiringControlPlane:
		return validateControlPlane(o)
	}
	return fmt.Errorf("wiring: %q is none of %s, %s", o.Wiring, WiringDedicated, WiringControlPlane)
}

// validateControlPlane: a static pod has no service account, and asks across the network.
func validateControlPlane(o SchedulerConfigOptions) error {
	var errs []error
	if o.Kubeconfig == "" {
		errs = append(errs, errors.New("kubeconfig: required for wiring control-plane: a static pod has no service account"))
	}
	if o.ExtenderURL == "" {
		errs = append(
			errs,
			errors.New("extenderURL: required for wiring control-plane: https:// and the ClusterIP of the extender's Service"),
		)
	}
	if o.TLS.CertFile == "" {
		errs = append(
			errs,
			errors.New("tls.certFile: required for wiring control-plane: the extender asks for a client certificate"),
		)
	}
	if o.TLS.KeyFile == "" {
		errs = append(
			errs,
			errors.New("tls.keyFile: required for wiring control-plane: the extender asks for a client certificate"),
		)
	}
	return errors.Join(errs...)
}

func validateExtenderURL(o SchedulerConfigOptions) error {
	if o.ExtenderURL == "" {
		// validateWiring says where it is required.
		return nil
	}
	address, err := url.Parse(o.ExtenderURL)
	if err != nil {
		return fmt.Errorf("extenderURL: %w", err)
	}
	switch {
	case address.Host == "":
		return fmt.Errorf("extenderURL: %q has no host; an example is %s", o.ExtenderURL, DefaultExtenderURL)
	case address.RawQuery != "" || address.Fragment != "" || address.User != nil:
		return fmt.Errorf("extenderURL: %q must be scheme, host, port and path only: kube-scheduler appends the verb",
			address.Redacted())
	case address.Scheme == "https":
		return validateTLS(o.TLS)
	case address.Scheme != "http":
		return fmt.Errorf("extenderURL: scheme %q is neither http nor https", address.Scheme)
	case !isLoopbackHost(address.Hostname()):
		return fmt.Errorf(
			"extenderURL: %q is plain http to an address that is not loopback: pods and decisions would cross the network unprotected; use https",
			o.ExtenderURL,
		)
	case o.TLS != SchedulerTLS{}:
		return fmt.Errorf("extenderURL: %q is http, so the tls files given would not be used; use https", o.ExtenderURL)
	}
	return nil
}

// isHTTPS reads the scheme as Go's client does, which takes HTTPS:// too.
func isHTTPS(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Scheme == "https"
}

// validateTLS: without a CA kube-scheduler turns the verification of the server off, silently; and
// without a server name it checks the certificate against the address, which a Service's
// certificate does not carry.
func validateTLS(tls SchedulerTLS) error {
	var errs []error
	if tls.CAFile == "" {
		errs = append(
			errs,
			errors.New(
				"tls.caFile: required for an https extenderURL: without a CA kube-scheduler does not verify the server at all",
			),
		)
	}
	if tls.ServerName == "" {
		errs = append(
			errs,
			errors.New(
				"tls.serverName: required for an https extenderURL: the certificate carries the Service's name, not its address",
			),
		)
	}
	if (tls.CertFile == "") != (tls.KeyFile == "") {
		errs = append(errs, errors.New("tls.certFile, tls.keyFile: give both or none"))
	}
	return errors.Join(errs...)
}

func validateLimits(o SchedulerConfigOptions) error {
	var errs []error
	if o.HTTPTimeout < 0 {
		errs = append(errs, fmt.Errorf("httpTimeout: %s is negative", o.HTTPTimeout))
	}
	if o.QPS < 0 {
		errs = append(errs, fmt.Errorf("qps: %g is negative: kube-scheduler's client would not be limited at all", o.QPS))
	}
	if o.Burst < 0 {
		errs = append(errs, fmt.Errorf("burst: %d is negative", o.Burst))
	}
	return errors.Join(errs...)
}
