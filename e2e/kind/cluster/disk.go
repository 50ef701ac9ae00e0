package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// containerdMetadata is where containerd keeps what it has, in a node container.
const containerdMetadata = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"

// ImagesOnDisk is ReadImagesOnDisk for what cannot fail.
func (l *Cluster) ImagesOnDisk(t *testing.T, container string) []string {
	t.Helper()
	names, err := l.ReadImagesOnDisk(t.Context(), container)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// ReadImagesOnDisk returns the names of the images that a stopped node's containerd has, sorted, by
// its own database: it cannot be asked while it does not run.
func (l *Cluster) ReadImagesOnDisk(ctx context.Context, container string) (names []string, err error) {
	folder, err := os.MkdirTemp("", "containerd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	file := filepath.Join(folder, "meta.db")
	if _, err := Docker(ctx, "cp", container+":"+containerdMetadata, file); err != nil {
		return nil, err
	}
	// The copy of a node that was started meanwhile may be torn. This does not take the database's
	// lock, so it does not wait.
	database, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer database.Close()
	err = database.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("v1"))
		for _, key := range []string{"k8s.io", "images"} {
			if bucket != nil {
				bucket = bucket.Bucket([]byte(key))
			}
		}
		if bucket == nil {
			return nil
		}
		return bucket.ForEachBucket(func(name []byte) error {
			names = append(names, string(name))
			return nil
		})
	})
	slices.Sort(names)
	return names, err
}
