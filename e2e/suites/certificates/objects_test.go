package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/e2e/rig"
)

// Names in the documents.
const (
	namespace       = "stratos-system"
	rootSecret      = "stratos-ca"
	servingSecret   = "stratos-serving"
	schedulerSecret = "stratos-scheduler-client"
	webhookName     = "stratos-webhook." + namespace + ".svc"
	extenderName    = "stratos-extender." + namespace + ".svc"
)

// documents are the objects of an installation whose extender is exposed, as YAML: what cert-manager acts on, and what an API server needs for it.
func documents() []byte {
	return []byte(`
apiVersion: v1
kind: Namespace
metadata: {name: stratos-system}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: stratos-selfsigned, namespace: stratos-system}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: stratos-ca, namespace: stratos-system}
spec:
  secretName: stratos-ca
  commonName: stratos-ca
  isCA: true
  duration: 87600h
  renewBefore: 8760h
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Never}
  usages: [cert sign, crl sign, digital signature]
  issuerRef: {name: stratos-selfsigned, kind: Issuer, group: cert-manager.io}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: stratos-ca, namespace: stratos-system}
spec: {ca: {secretName: stratos-ca}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: stratos-serving, namespace: stratos-system}
spec:
  secretName: stratos-serving
  dnsNames:
  - stratos-webhook.stratos-system.svc
  - stratos-webhook.stratos-system.svc.cluster.local
  - stratos-extender.stratos-system.svc
  - stratos-extender.stratos-system.svc.cluster.local
  duration: 2160h
  renewBefore: 720h
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: [digital signature, server auth]
  issuerRef: {name: stratos-ca, kind: Issuer, group: cert-manager.io}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: stratos-scheduler-client, namespace: stratos-system}
spec:
  secretName: stratos-scheduler-client
  commonName: stratos-scheduler
  duration: 2160h
  renewBefore: 720h
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: [digital signature, client auth]
  issuerRef: {name: stratos-ca, kind: Issuer, group: cert-manager.io}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: stratos-system-stratos
  annotations: {cert-manager.io/inject-ca-from: stratos-system/stratos-serving}
webhooks:
- name: nodepools.stratos.sh
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: stratos-webhook, namespace: stratos-system, path: /validate-stratos-sh-v1alpha1-nodepool, port: 443}}
  rules:
  - {apiGroups: [stratos.sh], apiVersions: [v1alpha1], operations: [CREATE, UPDATE], resources: [nodepools], scope: Cluster}
`)
}

// decode returns the objects of a list of YAML documents, in order.
func decode(text []byte) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// install applies the documents and returns the Certificates among them, once they are all Ready.
func install(t *testing.T, r *rig.Rig) []*unstructured.Unstructured {
	t.Helper()
	objects, err := decode(documents())
	if err != nil {
		t.Fatal(err)
	}
	var certificates []*unstructured.Unstructured
	for _, o := range objects {
		if err := r.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("helm")); err != nil {
			t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "Certificate" {
			certificates = append(certificates, o)
		}
	}
	for _, c := range certificates {
		awaitIssued(t, r, c, 1)
	}
	return certificates
}

// awaitIssued waits until the Certificate is Ready with at least that revision, and nothing is being issued any more.
func awaitIssued(t *testing.T, r *rig.Rig, c *unstructured.Unstructured, revision int64) {
	t.Helper()
	await(t, "certificate "+c.GetName(), func(ctx context.Context) (bool, error) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return false, err
		}
		got, _, err := unstructured.NestedInt64(c.Object, "status", "revision")
		if err == nil && got >= revision && conditionOf(c, "Ready") == "True" && conditionOf(c, "Issuing") != "True" {
			return true, nil
		}
		return false, errors.Join(err, fmt.Errorf("status %v", c.Object["status"]))
	})
}

func conditionOf(o *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

// renew has cert-manager issue the Certificate anew, in the way of `cmctl renew`, and waits until it has.
func renew(t *testing.T, r *rig.Rig, certificates ...*unstructured.Unstructured) {
	t.Helper()
	for _, c := range certificates {
		revision := triggerRenewal(t, r, c)
		awaitIssued(t, r, c, revision+1)
	}
}

func triggerRenewal(t *testing.T, r *rig.Rig, c *unstructured.Unstructured) int64 {
	t.Helper()
	revision, _, err := unstructured.NestedInt64(c.Object, "status", "revision")
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, err := unstructured.NestedSlice(c.Object, "status", "conditions")
	if err != nil {
		t.Fatal(err)
	}
	conditions = append(conditions, map[string]any{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renewed by a test"})
	if err := unstructured.SetNestedSlice(c.Object, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Status().Update(t.Context(), c); err != nil {
		t.Fatalf("renew certificate %s: %v", c.GetName(), err)
	}
	return revision
}

// leaves are the Certificates that are no CA.
func leaves(certificates []*unstructured.Unstructured) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, c := range certificates {
		if isCA, _, _ := unstructured.NestedBool(c.Object, "spec", "isCA"); !isCA {
			found = append(found, c)
		}
	}
	return found
}

func root(t *testing.T, certificates []*unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	for _, c := range certificates {
		if isCA, _, _ := unstructured.NestedBool(c.Object, "spec", "isCA"); isCA {
			return c
		}
	}
	t.Fatal("no certificate is a CA")
	return nil
}
