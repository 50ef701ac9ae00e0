package ec2test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/stratos-sh/stratos/provider/simcloud"
)

// Cluster is a cluster of EKS.
type Cluster struct {
	Name, Region, Endpoint string
	// CertificateAuthority is PEM, encoded with base64.
	CertificateAuthority string
	// ServiceIPv4 and ServiceIPv6 are the ranges of its Services. IPv6: the second is in use.
	ServiceIPv4, ServiceIPv6 string
	IPv6                     bool
	// Status is ACTIVE where it is empty. One that is CREATING shows no endpoint.
	Status string
	// AuthenticationMode is API_AND_CONFIG_MAP where it is empty.
	AuthenticationMode string
	// AccessEntries are the types of the principals' entries, such as EC2_LINUX, by their ARNs.
	AccessEntries map[string]string
}

// ClusterName is the cluster of DefaultAccount that the machines of the played cloud join.
const ClusterName = "e2e"

// defaultClusters are two in the region of Stratos, one of each IP family, and one elsewhere.
func defaultClusters() []Cluster {
	base := Cluster{
		Region: simcloud.DefaultRegion, Endpoint: simcloud.ClusterEndpoint, CertificateAuthority: simcloud.ClusterCA(),
		ServiceIPv4: simcloud.ClusterServiceCIDR, AccessEntries: map[string]string{NodeRole: "EC2_LINUX"},
	}
	here, six, elsewhere := base, base, base
	here.Name, elsewhere.Name, elsewhere.Region = ClusterName, "elsewhere", "eu-west-1"
	six.Name, six.IPv6, six.ServiceIPv6, six.ServiceIPv4 = "six", true, "fd12:3456:789a::/108", ""
	return []Cluster{here, six, elsewhere}
}

// SetCluster adds a cluster, or changes the one of the same name and region.
func (s *Server) SetCluster(c Cluster) {
	s.sim.Write(func(*simcloud.Book) {
		same := func(old Cluster) bool { return old.Name == c.Name && old.Region == c.Region }
		s.account.Clusters = append(slices.DeleteFunc(slices.Clone(s.account.Clusters), same), c)
	})
}

// eksSignature is the form of a request signed by Signature Version 4 for EKS.
var eksSignature = regexp.MustCompile(
	`^AWS4-HMAC-SHA256 Credential=[^/,\s]+/\d{8}/([a-z0-9-]+)/eks/aws4_request, ?SignedHeaders=[a-z0-9;-]+, ?Signature=[0-9a-f]{64}$`,
)

const clustersPath = "/clusters/"

// isEKS reports whether the request is one of EKS, whose API has paths, where EC2's has one.
func isEKS(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, clustersPath) }

// understandEKS reads GET /clusters/NAME and GET /clusters/NAME/access-entries/ARN.
func (s *Server) understandEKS(r *http.Request) (call, url.Values, error) {
	c := call{action: DescribeCluster, op: simcloud.OpResolve}
	name, principal, isEntry := strings.Cut(strings.TrimPrefix(r.URL.Path, clustersPath), "/access-entries/")
	params := url.Values{"name": {name}}
	if isEntry {
		c.action = DescribeAccessEntry
		params["principalArn"] = []string{principal}
	}
	signed := eksSignature.FindStringSubmatch(r.Header.Get("Authorization"))
	switch {
	case signed == nil || r.Header.Get("X-Amz-Date") == "":
		return c, params, &Error{Code: "MissingAuthenticationTokenException", Status: http.StatusForbidden,
			Message: "Missing Authentication Token"}
	case r.Method != http.MethodGet || name == "" || strings.Contains(name, "/"):
		return c, params, &Error{Code: "InvalidRequestException", Message: r.Method + " " + r.URL.Path}
	}
	c.region = signed[1]
	c.run = func(*simcloud.Book) (answer, error) {
		at := slices.IndexFunc(s.account.Clusters, func(c Cluster) bool { return c.Name == name && c.Region == signed[1] })
		if at < 0 {
			return answer{}, &Error{Code: "ResourceNotFoundException", Status: http.StatusNotFound,
				Message: fmt.Sprintf("No cluster found for name: %s.", name)}
		}
		if isEntry {
			return accessEntry(s.account.Clusters[at], principal)
		}
		return answer{content: clusterInfo(s.account.Clusters[at])}, nil
	}
	return c, params, nil
}

// accessEntry is EKS's answer about a principal.
func accessEntry(c Cluster, principal string) (answer, error) {
	kind, ok := c.AccessEntries[principal]
	if !ok {
		return answer{}, &Error{Code: "ResourceNotFoundException", Status: http.StatusNotFound,
			Message: "The specified principalArn could not be found. You can view your available access entries."}
	}
	return answer{content: map[string]any{"accessEntry": map[string]any{
		"clusterName": c.Name, "principalArn": principal, "type": kind, "createdAt": 1.7e9,
	}}}, nil
}

// clusterInfo is the part of EKS's answer that tells how to join.
func clusterInfo(c Cluster) any {
	network := map[string]any{"ipFamily": "ipv4", "elasticLoadBalancing": map[string]any{"enabled": false}}
	if c.IPv6 {
		network["ipFamily"] = "ipv6"
	}
	if c.ServiceIPv4 != "" {
		network["serviceIpv4Cidr"] = c.ServiceIPv4
	}
	if c.ServiceIPv6 != "" {
		network["serviceIpv6Cidr"] = c.ServiceIPv6
	}
	status := c.Status
	if status == "" {
		status = "ACTIVE"
	}
	mode := c.AuthenticationMode
	if mode == "" {
		mode = "API_AND_CONFIG_MAP"
	}
	info := map[string]any{
		"accessConfig": map[string]any{"authenticationMode": mode},
		"name":         c.Name, "status": status, "version": "1.37", "createdAt": 1.7e9, "kubernetesNetworkConfig": network,
	}
	if status != "CREATING" {
		info["endpoint"], info["certificateAuthority"] = c.Endpoint, map[string]any{"data": c.CertificateAuthority}
	}
	return map[string]any{"cluster": info}
}

// refuseEKS answers an error as EKS does, with its codes where the played cloud's are EC2's.
func (s *Server) refuseEKS(w http.ResponseWriter, e *Error) {
	code, status := e.Code, e.Status
	switch code {
	case codeThrottled:
		code, status = "ThrottlingException", http.StatusTooManyRequests
	case codeUnavailable:
		code, status = "ServiceUnavailableException", http.StatusServiceUnavailable
	case codeInternalError:
		code, status = "ServerException", http.StatusInternalServerError
	}
	if status == 0 {
		status = http.StatusBadRequest
	}
	w.Header().Set("X-Amzn-Errortype", code)
	s.sendJSON(w, status, map[string]any{"message": e.Message})
}

func (s *Server) sendJSON(w http.ResponseWriter, status int, content any) {
	text, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("ec2test: %v", err)) // our own maps of text
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Requestid", s.requestID())
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has gone
}
