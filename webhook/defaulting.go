package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// defaulting is controller-runtime's Defaulter with two differences that people notice: an object
// that Go cannot decode is left to the schema, and fields that have no default to be written stay
// byte for byte as they were applied.
type defaulting[T client.Object] struct {
	decoder admission.Decoder
	empty   func() T
	fill    func(T)
}

// Handle answers with the defaults as a patch.
func (d defaulting[T]) Handle(_ context.Context, req admission.Request) admission.Response {
	object := d.empty()
	if err := d.decoder.Decode(req, object); err != nil {
		// The API server validates by the schema after us and says which field is wrong and what is
		// allowed; Go's decoder would only say what it could not unmarshal. Nothing slips through: the
		// validating webhook refuses what it cannot decode.
		return admission.Allowed("")
	}
	patched, err := fillIn(req.Object.Raw, object, d.fill)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, patched)
}

// fillIn carries over to the raw object what fill changes in the decoded one. A plain encoding of
// the result would also rewrite durations (60m as 1h0m0s) and add an empty status, which GitOps
// tools report as drift forever.
func fillIn[T client.Object](raw []byte, object T, fill func(T)) ([]byte, error) {
	before, ok := object.DeepCopyObject().(T)
	if !ok {
		return nil, fmt.Errorf("a copy of %T has another type", object)
	}
	fill(object)
	change, err := client.MergeFrom(before).Data(object)
	if err != nil {
		return nil, fmt.Errorf("comparing with the defaults: %w", err)
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("the request's object is not JSON")
	}
	return jsonpatch.MergePatch(raw, change)
}
