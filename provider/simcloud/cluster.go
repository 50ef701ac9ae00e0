package simcloud

import (
	"encoding/base64"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// The cluster that machines join, as a cloud's API shows it. A cloud may give it another name.
const (
	ClusterName        = "simulated"
	ClusterEndpoint    = "https://0123456789ABCDEF0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com"
	ClusterServiceCIDR = "10.100.0.0/16"
)

// clusterCertificate is a certificate authority whose key was thrown away.
const clusterCertificate = `-----BEGIN CERTIFICATE-----
MIIBgDCCASegAwIBAgIUHShNna45nOwMxxSo0UUGLzw6woswCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjUwNzQ1MzVaGA8yMTI2MTEw
MTA3NDUzNVowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABCoMhk7urvsJAUzOxJPK8sUGarXS4TzxVmkKzfLeavUXdgZsy/Cd
H4SBeAb6mnLaIMFRKyaMV6rzFF3geOchSDmjUzBRMB0GA1UdDgQWBBT4FDTngFgN
YSABNbMoTj9Q2Hz15TAfBgNVHSMEGDAWgBT4FDTngFgNYSABNbMoTj9Q2Hz15TAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCH3NtScy+pIXGO+ZTb8dY
aFomLTZiqKRsp1ZTb8r+DFcCIQCcGVwkOc/C0W/nFFFuSgDCKe39b3teyiL9bXEB
0FiYUw==
-----END CERTIFICATE-----
`

// Cluster is what a machine of the cloud must know to join.
func (c *Cloud) Cluster() v1alpha1.BootstrapCluster {
	return v1alpha1.BootstrapCluster{
		Name: c.clusterName, Endpoint: ClusterEndpoint, CertificateAuthority: ClusterCA(), ServiceCIDR: ClusterServiceCIDR,
	}
}

// ClusterCA is the certificate authority of the cluster: PEM, encoded with base64.
func ClusterCA() string { return base64.StdEncoding.EncodeToString([]byte(clusterCertificate)) }
