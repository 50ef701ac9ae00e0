package userdata

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
)

const (
	fieldName     = "bootstrap.cluster.name"
	fieldEndpoint = "bootstrap.cluster.endpoint"
	fieldCA       = "bootstrap.cluster.certificateAuthority"
	fieldCIDR     = "bootstrap.cluster.serviceCIDR"
)

// CheckCluster refuses values with which no instance would join. Empty ones are fine.
func CheckCluster(c Cluster) []Problem {
	var found []Problem
	if c.Endpoint != "" && !isHTTPS(c.Endpoint) {
		found = append(found, Problem{fieldEndpoint, fmt.Sprintf(
			"%q is not allowed: it must be a URL with https and a host, as https://10.0.0.1:6443", c.Endpoint)})
	}
	if c.CertificateAuthority != "" {
		if _, err := decodeCA(c.CertificateAuthority); err != nil {
			found = append(found, Problem{fieldCA, err.Error() + "; it must be base64 of PEM certificates"})
		}
	}
	if c.ServiceCIDR != "" {
		if _, err := netip.ParsePrefix(c.ServiceCIDR); err != nil {
			found = append(found, Problem{fieldCIDR, fmt.Sprintf(
				"%q is not allowed: it must be a CIDR, as 172.20.0.0/16", c.ServiceCIDR)})
		}
	}
	return found
}

// checkComplete refuses what CheckCluster does, and needed values that are missing.
func checkComplete(c Cluster, needed ...string) []Problem {
	var found []Problem
	for _, f := range []struct{ field, value string }{
		{fieldName, c.Name}, {fieldEndpoint, c.Endpoint}, {fieldCA, c.CertificateAuthority}, {fieldCIDR, c.ServiceCIDR},
	} {
		if f.value == "" && slices.Contains(needed, f.field) {
			found = append(found, Problem{f.field, "it is not known: set it, or let Stratos read it from the cluster"})
		}
	}
	return append(found, CheckCluster(c)...)
}

func isHTTPS(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "https" && u.Hostname() != ""
}

// decodeCA returns the PEM certificates.
func decodeCA(encoded string) ([]byte, error) {
	certificates, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, errors.New("it is not base64")
	}
	rest := certificates
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("what it encodes is not PEM of certificates alone")
		}
	}
	if len(bytes.TrimSpace(certificates)) == 0 {
		return nil, errors.New("it holds no certificate")
	}
	return certificates, nil
}

// oneLineCA is the CA in base64 without line breaks. The CA is one that CheckCluster accepts.
func oneLineCA(encoded string) string {
	certificates, err := decodeCA(encoded)
	if err != nil {
		return encoded
	}
	return base64.StdEncoding.EncodeToString(certificates)
}

// clusterDNS is the tenth address of the range, where EKS has the cluster's DNS. nodeadm derives it
// in the same way.
func clusterDNS(serviceCIDR string) string {
	prefix, err := netip.ParsePrefix(serviceCIDR)
	if err != nil {
		return ""
	}
	address := prefix.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	return address.String()
}
