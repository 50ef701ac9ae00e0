package charts

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	apiutil "github.com/cert-manager/cert-manager/pkg/api/util"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/util/pki"
)

// What cert-manager checks of a Certificate at admission stands in its
// internal/apis/certmanager/validation, which Go does not let others import. What it does with an
// accepted one is public, in pkg/util/pki: the private key, the template of the certificate, and
// the signing request, all made from the spec. These tests make them, and check by hand the two
// rules that only the internal package has: durations, and that an issuer has one configuration.

// TestCertificatesAreValid decodes every Certificate strictly and has cert-manager make of it what
// its controllers would.
func TestCertificatesAreValid(t *testing.T) {
	for _, o := range ofKind(t, "Certificate") {
		t.Run(o.String(), func(t *testing.T) {
			certificate := &certmanagerv1.Certificate{}
			o.decode(t, certificate)
			spec := certificate.Spec
			key, err := pki.GeneratePrivateKeyForCertificate(certificate)
			if err != nil {
				t.Fatalf("private key: %v", err)
			}
			if violations := pki.PrivateKeyMatchesSpec(key, spec); len(violations) > 0 {
				t.Errorf("the private key is not what the spec says: %q", violations)
			}
			request, err := pki.GenerateCSR(certificate)
			if err != nil {
				t.Fatalf("signing request: %v", err)
			}
			if _, err := pki.EncodeCSR(request, key); err != nil {
				t.Errorf("signing request: %v", err)
			}
			template, err := pki.CertificateTemplateFromCertificate(certificate)
			if err != nil {
				t.Fatalf("template: %v", err)
			}
			checkTemplate(t, certificate, template)
			checkDurations(t, spec)
		})
	}
}

// checkTemplate wants what each certificate is for, and no more.
func checkTemplate(t *testing.T, certificate *certmanagerv1.Certificate, template *x509.Certificate) {
	t.Helper()
	want := []x509.ExtKeyUsage{}
	switch {
	case certificate.Spec.IsCA, strings.HasSuffix(certificate.Name, "-bootstrap-tokens"): // its key alone is used
	case strings.HasSuffix(certificate.Name, "-serving"):
		want = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case strings.HasSuffix(certificate.Name, "-client"):
		want = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	default:
		t.Errorf("nobody knows what it is for")
	}
	if !slices.Equal(template.ExtKeyUsage, want) || template.IsCA != certificate.Spec.IsCA {
		t.Errorf("extended usages %v and CA %v, want %v and %v", template.ExtKeyUsage, template.IsCA, want,
			certificate.Spec.IsCA)
	}
	if (template.KeyUsage&x509.KeyUsageCertSign != 0) != certificate.Spec.IsCA {
		t.Errorf("key usages %b: only a CA signs certificates", template.KeyUsage)
	}
	for _, name := range template.DNSNames {
		if !strings.Contains(name, "."+certificate.Namespace+".svc") {
			t.Errorf("DNS name %q is none of a Service of the release", name)
		}
	}
}

// checkDurations repeats cert-manager's rules: at least an hour, renewed at least five minutes
// before the end and not at the start.
func checkDurations(t *testing.T, spec certmanagerv1.CertificateSpec) {
	t.Helper()
	lasts := apiutil.DefaultCertDuration(spec.Duration)
	if lasts < certmanagerv1.MinimumCertificateDuration {
		t.Errorf("duration %s is below %s", lasts, certmanagerv1.MinimumCertificateDuration)
	}
	if spec.RenewBefore == nil || spec.RenewBefore.Duration < certmanagerv1.MinimumRenewBefore ||
		spec.RenewBefore.Duration >= lasts {
		t.Errorf("renewBefore %v of %s", spec.RenewBefore, lasts)
	}
	now := time.Now()
	renewal, err := pki.RenewalTime(now, now.Add(lasts), spec.RenewBefore, spec.RenewBeforePercentage, nil)
	if err != nil || !renewal.After(now) {
		t.Errorf("would be renewed again at %v, error %v", renewal, err)
	}
}

// TestIssuersAreValid decodes every Issuer strictly: one configuration each, and of a kind that
// needs no account anywhere.
func TestIssuersAreValid(t *testing.T) {
	for _, o := range ofKind(t, "Issuer") {
		issuer := &certmanagerv1.Issuer{}
		o.decode(t, issuer)
		name, err := apiutil.NameForIssuer(issuer)
		if err != nil {
			t.Errorf("%s: %v", o, err)
		}
		config := issuer.Spec.IssuerConfig
		if (config.SelfSigned != nil) == (config.CA != nil) || config.ACME != nil || config.Vault != nil ||
			config.Venafi != nil {
			t.Errorf("%s: %s, want either selfSigned or ca", o, name)
		}
	}
}

// TestCertificatesChain: every Certificate is issued by an Issuer of its set or by the one that the
// values name, and every Secret that is mounted or signs is one that a Certificate of its set
// writes.
func TestCertificatesChain(t *testing.T) {
	type key struct{ set, namespace, name string }
	issuers, secrets := map[key]bool{}, map[key]bool{}
	for _, o := range ofKind(t, "Issuer") {
		issuers[key{o.set, o.Metadata.Namespace, o.Metadata.Name}] = true
	}
	for _, o := range ofKind(t, "Certificate") {
		certificate := &certmanagerv1.Certificate{}
		o.decode(t, certificate)
		secrets[key{o.set, o.Metadata.Namespace, certificate.Spec.SecretName}] = true
		ref := certificate.Spec.IssuerRef
		if !issuers[key{o.set, o.Metadata.Namespace, ref.Name}] && ref.Name != "house-ca" {
			t.Errorf("%s: nobody makes its issuer %q", o, ref.Name)
		}
	}
	for _, o := range ofKind(t, "Issuer") {
		issuer := &certmanagerv1.Issuer{}
		o.decode(t, issuer)
		if ca := issuer.Spec.CA; ca != nil && !secrets[key{o.set, o.Metadata.Namespace, ca.SecretName}] {
			t.Errorf("%s: nobody writes the Secret %q that it signs with", o, ca.SecretName)
		}
	}
	for _, o := range ofKind(t, "Deployment") {
		for _, volume := range deployment(t, o).Spec.Template.Spec.Volumes {
			if volume.Secret == nil || slices.Contains([]string{"stratos-certificates", "stratos-scheduler-certificate",
				"token-key"}, volume.Secret.SecretName) {
				continue // of others
			}
			if !secrets[key{o.set, o.Metadata.Namespace, volume.Secret.SecretName}] {
				t.Errorf("%s: nobody writes the Secret %q that it mounts", o, volume.Secret.SecretName)
			}
		}
	}
}

// TestInjectionNamesTheServingCertificate: cainjector takes the CA from a Certificate by its name,
// and says nothing where there is none.
func TestInjectionNamesTheServingCertificate(t *testing.T) {
	serving := map[string]string{}
	for _, o := range ofKind(t, "Certificate") {
		if strings.HasSuffix(o.Metadata.Name, "-serving") {
			serving[o.set] = o.Metadata.Namespace + "/" + o.Metadata.Name
		}
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		for _, o := range ofKind(t, kind) {
			if got := o.Metadata.Annotations[certmanagerv1.SchemeGroupVersion.Group+"/inject-ca-from"]; got != serving[o.set] {
				t.Errorf("%s takes its CA from %q, want %q", o, got, serving[o.set])
			}
		}
	}
}
