package model

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

// apiClient is a process's way to the API server: it reads from the process's cache, or from the
// server itself where live is set. Stratos does not call the methods that it does not implement;
// such a call panics.
type apiClient struct {
	client.Client
	p    *process
	live bool
}

func (c *apiClient) source() objects {
	if c.live {
		return c.p.w.api.objects
	}
	return c.p.cache.objects
}

func kindOf(o any) kind {
	switch o.(type) {
	case *corev1.Node, *corev1.NodeList:
		return kindNode
	case *corev1.Pod, *corev1.PodList:
		return kindPod
	case *v1alpha1.NodePool, *v1alpha1.NodePoolList:
		return kindPool
	case *v1alpha1.AWSNodeClass:
		return kindClass
	}
	panic(fmt.Sprintf("the world knows no %T", o))
}

func notFound(k kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: string(k)}, name)
}

// Get implements client.Reader.
func (c *apiClient) Get(_ context.Context, at client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	k := kindOf(into)
	read := func() error {
		found := c.source()[k][at]
		if found == nil {
			return notFound(k, at.Name)
		}
		copyInto(found, into)
		return nil
	}
	if c.live {
		return c.p.ask(read)
	}
	return read()
}

func copyInto(from, to client.Object) {
	switch to := to.(type) {
	case *corev1.Node:
		if n, ok := from.(*corev1.Node); ok {
			n.DeepCopyInto(to)
		}
	case *corev1.Pod:
		if p, ok := from.(*corev1.Pod); ok {
			p.DeepCopyInto(to)
		}
	case *v1alpha1.NodePool:
		if p, ok := from.(*v1alpha1.NodePool); ok {
			p.DeepCopyInto(to)
		}
	case *v1alpha1.AWSNodeClass:
		if p, ok := from.(*v1alpha1.AWSNodeClass); ok {
			p.DeepCopyInto(to)
		}
	}
}

// List implements client.Reader.
func (c *apiClient) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	switch list := into.(type) {
	case *storagev1.VolumeAttachmentList:
		return nil // no volumes are played
	case *appsv1.DaemonSetList:
		list.Items = c.p.w.daemonSets()
		return nil
	}
	o := client.ListOptions{}
	o.ApplyOptions(options)
	read := func() error {
		switch list := into.(type) {
		case *corev1.NodeList:
			list.Items = copies[corev1.Node](c.source()[kindNode], &o)
		case *corev1.PodList:
			list.Items = copies[corev1.Pod](c.source()[kindPod], &o)
		case *v1alpha1.NodePoolList:
			list.Items = copies[v1alpha1.NodePool](c.source()[kindPool], &client.ListOptions{})
		default:
			panic(fmt.Sprintf("the world lists no %T", into))
		}
		return nil
	}
	if c.live {
		return c.p.ask(read)
	}
	return read()
}

// copies are those of the objects that the options select, by key.
func copies[T any, P interface {
	*T
	client.Object
	DeepCopyInto(into *T)
}](all map[key]client.Object, o *client.ListOptions) []T {
	var found []P
	for _, object := range all {
		if object, ok := object.(P); ok && selected(o, object) {
			found = append(found, object)
		}
	}
	sortByKey(found)
	out := make([]T, len(found))
	for i, object := range found {
		object.DeepCopyInto(&out[i])
	}
	return out
}

func selected(o *client.ListOptions, object client.Object) bool {
	if o.Namespace != "" && o.Namespace != object.GetNamespace() {
		return false
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	for _, r := range o.FieldSelector.Requirements() {
		if fieldOf(object, r.Field) != r.Value {
			return false
		}
	}
	return true
}

// fieldOf are the indexes that Stratos makes, and the fields by which the API server selects pods.
func fieldOf(object client.Object, field string) string {
	switch o := object.(type) {
	case *corev1.Node:
		switch field {
		case "spec.providerID":
			return o.Spec.ProviderID
		case "stratos.managed-instance":
			_, pool := o.Labels[v1alpha1.LabelPool]
			_, state := o.Labels[v1alpha1.LabelState]
			if !pool || !state {
				return ""
			}
			return o.Spec.ProviderID[strings.LastIndexByte(o.Spec.ProviderID, '/')+1:]
		}
	case *corev1.Pod:
		switch {
		case field == "spec.nodeName", o.Spec.NodeName != "" && field == "stratos.pod-node":
			return o.Spec.NodeName
		case field == "stratos.pod-node":
			return o.Status.NominatedNodeName
		case field == "metadata.name":
			return o.Name
		}
	}
	panic(fmt.Sprintf("the world has no index %q of %T", field, object))
}

// Patch implements client.Writer.
func (c *apiClient) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.p.write(fmt.Sprintf("patch %s %s", kindOf(object), object.GetName()), func() error {
		return c.patch(object, patch.Type(), data, false)
	})
}

// body is what patches of Nodes and pools reach: keeping the rest out of it keeps a run short.
type body struct {
	Metadata struct {
		Name            string            `json:"name,omitempty"`
		UID             types.UID         `json:"uid,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
		Finalizers      []string          `json:"finalizers,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints        []corev1.Taint `json:"taints,omitempty"`
		Unschedulable bool           `json:"unschedulable,omitempty"`
	} `json:"spec"`
}

func (c *apiClient) patch(object client.Object, as types.PatchType, data []byte, status bool) error {
	s, k := c.p.w.api, kindOf(object)
	found := s.objects[k][client.ObjectKeyFromObject(object)]
	if found == nil {
		return notFound(k, object.GetName())
	}
	if status {
		return c.patchStatus(found, object, data)
	}
	is, err := patched(found, as, data)
	if err != nil {
		return err
	}
	s.put(k, is)
	copyInto(is, object)
	return nil
}

// patched applies a JSON patch or a merge patch as the API server does: a test that fails and a
// taint that stands twice are 422, an old resource version 409.
func patched(found client.Object, as types.PatchType, data []byte) (client.Object, error) {
	is, ok := found.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", found)
	}
	b := bodyOf(is)
	doc, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	switch as {
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(data)
		if err != nil {
			return nil, err
		}
		if doc, err = operations.Apply(doc); err != nil {
			return nil, unprocessable(found, err.Error())
		}
	case types.MergePatchType:
		if doc, err = jsonpatch.MergePatch(doc, data); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("the world does not apply %s here", as)
	}
	after := body{}
	if err := json.Unmarshal(doc, &after); err != nil {
		return nil, err
	}
	if after.Metadata.ResourceVersion != found.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, found.GetName(),
			fmt.Errorf("the object has been modified"))
	}
	if twice := taintTwice(after.Spec.Taints); twice != "" {
		return nil, unprocessable(found, "spec.taints: Duplicate value: "+twice)
	}
	is.SetLabels(after.Metadata.Labels)
	is.SetAnnotations(after.Metadata.Annotations)
	is.SetFinalizers(after.Metadata.Finalizers)
	if n, ok := is.(*corev1.Node); ok {
		n.Spec.Taints, n.Spec.Unschedulable = after.Spec.Taints, after.Spec.Unschedulable
	}
	return is, nil
}

func unprocessable(o client.Object, why string) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch",
		schema.GroupResource{Resource: "nodes"}, o.GetName(), why, 0, false)
}

// taintTwice is a taint whose key and effect another one has too; "" where there is none.
func taintTwice(taints []corev1.Taint) string {
	for i := range taints {
		if slices.ContainsFunc(taints[:i], func(o corev1.Taint) bool { return o.MatchTaint(&taints[i]) }) {
			return taints[i].ToString()
		}
	}
	return ""
}

func bodyOf(o client.Object) body {
	b := body{}
	b.Metadata.Name, b.Metadata.UID, b.Metadata.ResourceVersion = o.GetName(), o.GetUID(), o.GetResourceVersion()
	b.Metadata.Labels, b.Metadata.Annotations, b.Metadata.Finalizers = o.GetLabels(), o.GetAnnotations(), o.GetFinalizers()
	if n, ok := o.(*corev1.Node); ok {
		b.Spec.Taints, b.Spec.Unschedulable = n.Spec.Taints, n.Spec.Unschedulable
	}
	return b
}

// patchStatus applies a strategic merge patch to the conditions of a Node or pod.
func (c *apiClient) patchStatus(found, object client.Object, data []byte) error {
	version := struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}{}
	if err := json.Unmarshal(data, &version); err != nil {
		return err
	}
	if v := version.Metadata.ResourceVersion; v != "" && v != found.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{Resource: string(kindOf(found))}, found.GetName(),
			fmt.Errorf("the object has been modified"))
	}
	is, ok := found.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", found)
	}
	var err error
	switch is := is.(type) {
	case *corev1.Node:
		after := &corev1.Node{Status: corev1.NodeStatus{Conditions: is.Status.Conditions}}
		err = mergeStatus(after, data)
		is.Status.Conditions = after.Status.Conditions
	case *corev1.Pod:
		after := &corev1.Pod{Status: corev1.PodStatus{Conditions: is.Status.Conditions}}
		err = mergeStatus(after, data)
		is.Status.Conditions = after.Status.Conditions
	default:
		err = fmt.Errorf("the world patches no status of %T", found)
	}
	if err != nil {
		return err
	}
	c.p.w.api.put(kindOf(is), is)
	copyInto(is, object)
	return nil
}

// mergeStatus applies the patch to an object that holds nothing but what the patch may change.
func mergeStatus[T any](object *T, patch []byte) error {
	doc, err := json.Marshal(object)
	if err != nil {
		return err
	}
	if doc, err = strategicpatch.StrategicMergePatch(doc, patch, object); err != nil {
		return err
	}
	*object = *new(T)
	return json.Unmarshal(doc, object)
}

// Delete implements client.Writer.
func (c *apiClient) Delete(_ context.Context, object client.Object, options ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	o.ApplyOptions(options)
	k, at := kindOf(object), client.ObjectKeyFromObject(object)
	return c.p.write(fmt.Sprintf("delete %s %s", k, at.Name), func() error {
		s := c.p.w.api
		found := s.objects[k][at]
		switch {
		case found == nil:
			return notFound(k, at.Name)
		case o.Preconditions != nil && o.Preconditions.UID != nil && *o.Preconditions.UID != found.GetUID():
			return apierrors.NewConflict(schema.GroupResource{Resource: string(k)}, at.Name, fmt.Errorf("uid does not match"))
		}
		if p, ok := found.(*corev1.Pod); ok {
			c.p.w.rules.deletes(p)
		}
		if n, ok := found.(*corev1.Node); ok {
			c.p.w.rules.deletesNode(n)
		}
		if o.GracePeriodSeconds != nil && *o.GracePeriodSeconds == 0 {
			s.drop(k, at)
			return nil
		}
		s.remove(k, at)
		return nil
	})
}

// Status implements client.StatusClient.
func (c *apiClient) Status() client.SubResourceWriter { return &subClient{c: c, of: "status"} }

// SubResource implements client.SubResourceClientConstructor.
func (c *apiClient) SubResource(name string) client.SubResourceClient {
	return &subClient{c: c, of: name}
}
