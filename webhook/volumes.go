package webhook

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stratos-sh/stratos/crds/v1alpha1"
)

const (
	gib = 1 << 30
	// maxHibernatedGiB is EC2's limit of memory that is written to disk.
	maxHibernatedGiB = 150
)

func validateVolumes(spec *v1alpha1.AWSNodeClassSpec, at *field.Path) (field.ErrorList, admission.Warnings) {
	var errs field.ErrorList
	var warnings admission.Warnings
	for i := range spec.BlockDeviceMappings {
		mapping, here := &spec.BlockDeviceMappings[i], at.Index(i)
		errs = append(errs, validateID(mapping.SnapshotID, "snap", here.Child("snapshotId"))...)
		keyErrs, keyWarnings := validateKey(mapping.KMSKeyID, spec.Region, here.Child("kmsKeyId"))
		errs, warnings = append(errs, keyErrs...), append(warnings, keyWarnings...)
		errs = append(errs, validateRootType(mapping, here)...)
		warnings = append(warnings, volumeWarnings(mapping, here)...)
	}
	moreErrs, more := validateDevices(spec.BlockDeviceMappings, at)
	return append(errs, moreErrs...), append(warnings, more...)
}

// validateRootType: EC2 boots from SSD and old magnetic volumes only.
func validateRootType(mapping *v1alpha1.BlockDeviceMapping, at *field.Path) field.ErrorList {
	if kind := mapping.VolumeTypeOrDefault(); isRoot(mapping.DeviceName) && (kind == "st1" || kind == "sc1") {
		return field.ErrorList{field.Invalid(at.Child("volumeType"), kind,
			"must be gp3, gp2, io1, io2 or standard for a root device: EC2 does not boot from st1 and sc1")}
	}
	return nil
}

func volumeWarnings(mapping *v1alpha1.BlockDeviceMapping, at *field.Path) admission.Warnings {
	var warnings admission.Warnings
	if device := bare(mapping.DeviceName); strings.HasPrefix(device, "nvme") || strings.HasPrefix(device, "hd") {
		warnings = append(warnings, warn(at.Child("deviceName"),
			"%s is what the system calls a disk; EC2 wants names such as /dev/sdb and /dev/xvdb", mapping.DeviceName)...)
	}
	if !mapping.DeleteOnTerminationOrDefault() {
		warnings = append(warnings, warn(at.Child("deleteOnTermination"),
			"with false each replaced node leaves a volume behind that no controller deletes and AWS bills")...)
	}
	return warnings
}

// bare is a device name without its folder, which EC2 takes for the same.
func bare(device string) string { return strings.TrimPrefix(device, "/dev/") }

// isRoot knows the root devices of the usual AMIs; the CRD's rule on hibernation has the same list.
func isRoot(device string) bool {
	switch bare(device) {
	case "xvda", "sda1", "sda":
		return true
	}
	return false
}

// validateDevices finds one device under two names. That names are unique as they are written is
// the CRD's rule.
func validateDevices(mappings []v1alpha1.BlockDeviceMapping, at *field.Path) (field.ErrorList, admission.Warnings) {
	var errs field.ErrorList
	var warnings admission.Warnings
	first, root := map[string]int{}, -1
	for i := range mappings {
		device, here := mappings[i].DeviceName, at.Index(i).Child("deviceName")
		before, twice := first[bare(device)]
		switch {
		case twice:
			errs = append(errs, field.Invalid(here, device,
				fmt.Sprintf("must be another device than %s: with and without /dev/ is the same", at.Index(before))))
			continue
		case isRoot(device) && root >= 0:
			warnings = append(warnings, warn(here,
				"%s and %s are both names of root devices; an AMI has one, the other becomes an empty disk", device,
				mappings[root].DeviceName)...)
		case isRoot(device):
			root = i
		}
		first[bare(device)] = i
	}
	return errs, warnings
}

// validateHibernation wants room for the memory on the root volume. The memory is what the cloud
// resolved, or where that is not known yet what the name of the type tells; what is only guessed is
// a warning.
func validateHibernation(spec *v1alpha1.AWSNodeClassSpec, capacity corev1.ResourceList,
	at *field.Path) (field.ErrorList, admission.Warnings) {
	if !spec.HibernationEnabled() {
		return nil, nil
	}
	memory, known := float64(0), false
	if resolved, ok := capacity[corev1.ResourceMemory]; ok {
		memory, known = float64(resolved.Value())/gib, true
	} else if memory = memoryByName(spec.InstanceType); memory == 0 {
		return nil, nil
	}
	for i := range spec.BlockDeviceMappings {
		mapping := &spec.BlockDeviceMappings[i]
		if isRoot(mapping.DeviceName) && mapping.VolumeSize != nil && float64(*mapping.VolumeSize) < memory {
			path := at.Child("blockDeviceMappings").Index(i).Child("volumeSize")
			problem := fmt.Sprintf("hibernation needs a root volume of at least the %.0f GiB of memory of %s", memory,
				spec.InstanceType)
			return refusedOrWarned(path, *mapping.VolumeSize, problem, known)
		}
	}
	if memory > maxHibernatedGiB {
		problem := fmt.Sprintf("%s has %.0f GiB of memory; EC2 hibernates at most %d GiB", spec.InstanceType, memory,
			maxHibernatedGiB)
		return refusedOrWarned(at.Child("hibernation", "enabled"), true, problem, known)
	}
	return nil, nil
}

func refusedOrWarned(at *field.Path, value any, problem string, refuse bool) (field.ErrorList, admission.Warnings) {
	if refuse {
		return field.ErrorList{field.Invalid(at, value, problem)}, nil
	}
	return nil, warn(at, "%v: %s", value, problem)
}

// instanceType splits the types of the large families: c, m or r, a generation, features, the size.
var instanceType = regexp.MustCompile(`^([cmr])[5-9][a-z-]*\.(?:(\d*)x)?large$`)

// memoryByName is the memory in GiB of an instance type of the families c, m and r from their fifth
// generation on, which have 2, 4 and 8 GiB for each of their processors; 0 for the others.
func memoryByName(name string) float64 {
	match := instanceType.FindStringSubmatch(name)
	if match == nil {
		return 0
	}
	processors := 2.0
	if strings.HasSuffix(name, "xlarge") {
		times := 1
		if match[2] != "" {
			times, _ = strconv.Atoi(match[2]) // digits only; what overflows is no type that exists
		}
		processors = 4 * float64(times)
	}
	return processors * map[string]float64{"c": 2, "m": 4, "r": 8}[match[1]]
}
