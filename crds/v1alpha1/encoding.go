package v1alpha1

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ParseResources reads the value of AnnotationAllocatableAtStop. An empty value is an empty list.
func ParseResources(s string) (corev1.ResourceList, error) {
	if s == "" {
		return nil, nil
	}
	list := corev1.ResourceList{}
	err := json.Unmarshal([]byte(s), &list)
	return list, err
}

// FormatResources writes the value of AnnotationAllocatableAtStop. Equal lists give equal strings.
func FormatResources(list corev1.ResourceList) string {
	out, err := json.Marshal(list)
	if err != nil {
		return "" // a ResourceList marshals always: its keys are strings and quantities have no failing encoding
	}
	return string(out)
}

// FirstNames lists the names for a message: the first ones alone where there are more than most.
func FirstNames(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
