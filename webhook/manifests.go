package webhook

import (
	_ "embed" // manifests.yaml
)

// Manifests are the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration, as make
// generate writes them from the markers in doc.go and from webhook/manifests. Service and CA are to
// be put in, and Stratos's own namespace into the selector of pods.stratos.sh.
//
//go:embed manifests.yaml
var Manifests []byte
