package fake

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxImages is the kubelet's nodeStatusMaxImages.
	maxImages = 50
	// missingImagePrefix begins the images that no registry has.
	missingImagePrefix = "missing.invalid/"
)

// digest is the fake registry's digest of an image.
func digest(image string) string {
	sum := sha256.Sum256([]byte(image))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pinned is the image by digest: repository@sha256:...
func pinned(image string) string {
	if strings.Contains(image, "@") {
		return image
	}
	repository := image
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		repository = image[:colon]
	}
	return repository + "@" + digest(image)
}

// imageSize is between 5 and about 500 MB, the same for the same image.
func imageSize(image string) int64 {
	sum := sha256.Sum256([]byte(image))
	return 5_000_000 + int64(binary.BigEndian.Uint32(sum[:4])%500_000_000)
}

// imageList is Node.status.images: the largest first, at most 50, as the kubelet does.
func (m *machine) imageList() []corev1.ContainerImage {
	m.Disk.Lock()
	defer m.Disk.Unlock()
	images := make([]corev1.ContainerImage, 0, len(m.Disk.Images))
	for image := range m.Disk.Images {
		names := []string{pinned(image)}
		if names[0] != image {
			names = append(names, image)
		}
		images = append(images, corev1.ContainerImage{Names: names, SizeBytes: imageSize(image)})
	}
	slices.SortFunc(images, func(a, b corev1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Names[0], b.Names[0]))
	})
	return images[:min(len(images), maxImages)]
}

func (m *machine) hasImage(image string) bool {
	m.Disk.Lock()
	defer m.Disk.Unlock()
	return m.Disk.Images[image]
}

// wantImages begins the pulls of the containers that are next. An image that was pulled in this
// boot and has gone since is pulled again. The caller holds m.mu.
func (m *machine) wantImages(pod *corev1.Pod, now time.Time, pull time.Duration) {
	for _, c := range pod.Spec.InitContainers {
		m.wantImage(c, now, pull)
		if at, pulled := m.life.pulls[c.Image]; pulled && at.After(now) || !canRun(c) || !pulled && !m.hasImage(c.Image) {
			return // a kubelet does not begin with the next container before this one has run
		}
	}
	for _, c := range pod.Spec.Containers {
		m.wantImage(c, now, pull)
	}
}

func (m *machine) wantImage(c corev1.Container, now time.Time, pull time.Duration) {
	if c.ImagePullPolicy == corev1.PullNever {
		return
	}
	collected := m.life.landed[c.Image] && !m.hasImage(c.Image)
	if _, ok := m.life.pulls[c.Image]; ok && !collected {
		return
	}
	delete(m.life.landed, c.Image)
	at := now
	if !m.hasImage(c.Image) {
		at = now.Add(pull)
	}
	m.life.pulls[c.Image] = at
}

// canRun reports whether the image can be pulled and has the command.
func canRun(c corev1.Container) bool {
	return !strings.HasPrefix(c.Image, missingImagePrefix) && (len(c.Command) == 0 ||
		!strings.HasPrefix(c.Command[0], noSuchCommandPrefix))
}

// landImages puts the images of the pod whose pull is over onto the disk and reports whether one is
// new. The caller holds m.mu.
func (m *machine) landImages(pod *corev1.Pod, now time.Time) bool {
	m.Disk.Lock()
	defer m.Disk.Unlock()
	landed := false
	for c := range containersOf(pod) {
		at, pulled := m.life.pulls[c.Image]
		if !pulled || at.After(now) || m.life.landed[c.Image] || strings.HasPrefix(c.Image, missingImagePrefix) {
			continue
		}
		m.life.landed[c.Image] = true
		if m.Disk.Images[c.Image] {
			continue
		}
		m.Disk.Images[c.Image] = true
		landed = true
	}
	return landed
}
