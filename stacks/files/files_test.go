package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/dirhash"
)

func sample() Files {
	return Files{"a.yaml": {Data: []byte("a: 1\n")}, "b/run.sh": {Data: []byte("#!/bin/sh\n"), Executable: true},
		"b/c/d": {Data: []byte("d")}}
}

func TestWriteAndReadAgain(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	if err := sample().WriteNew(folder); err != nil {
		t.Fatal(err)
	}
	got, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Error(diff)
	}
	if err := sample().WriteNew(folder); err == nil || !strings.Contains(err.Error(), folder+" is not empty") {
		t.Errorf("a second time: error %v", err)
	}
	if beside, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(beside) != 1 {
		t.Errorf("beside the folder: %v, error %v", beside, err)
	}
	want, err := dirhash.HashDir(folder, "", dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	if hash, err := got.Hash(); err != nil || hash != want {
		t.Errorf("hash %s, want %s, error %v", hash, want, err)
	}
}

func TestReadRefusesLinks(t *testing.T) {
	folder := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(folder, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(folder); err == nil || !strings.Contains(err.Error(), "link must be a file") {
		t.Errorf("error %v", err)
	}
}

// TestArchive: the same bytes from two folders, at two times.
func TestArchive(t *testing.T) {
	first, err := sample().Archive("top", false)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "other")
	if err := sample().WriteNew(folder); err != nil {
		t.Fatal(err)
	}
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(folder, "a.yaml"), old, old); err != nil {
		t.Fatal(err)
	}
	again, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Archive("top", false)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the bytes differ, error %v", err)
	}
	unpacked, err := Unpack(first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), unpacked.Below("top")); diff != "" {
		t.Error(diff)
	}
	withFolders, err := sample().Archive("", true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.yaml", "b/", "b/c/", "b/c/d", "b/run.sh"}, entries(t, withFolders)); diff != "" {
		t.Error(diff)
	}
}

func entries(t *testing.T, archive []byte) []string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// TestUnpackRefuses: archives come from other places than the tree.
func TestUnpackRefuses(t *testing.T) {
	zipped := func(headers ...*tar.Header) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		w := tar.NewWriter(z)
		for _, h := range headers {
			if err := w.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(make([]byte, h.Size)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	whole := zipped(&tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 10})
	for name, c := range map[string]struct {
		archive []byte
		err     string
	}{
		"a path out":       {archive: zipped(&tar.Header{Name: "a/../../b", Typeflag: tar.TypeReg}), err: "leads out"},
		"an absolute path": {archive: zipped(&tar.Header{Name: "/etc/b", Typeflag: tar.TypeReg}), err: "leads out"},
		"a link":           {archive: zipped(&tar.Header{Name: "b", Linkname: "/etc", Typeflag: tar.TypeSymlink}), err: "neither"},
		"too much":         {archive: zipped(&tar.Header{Name: "b", Typeflag: tar.TypeReg, Size: maxArchive}), err: "unexpected EOF"},
		"cut off":          {archive: whole[:len(whole)/2], err: "cut off"},
		"no archive":       {archive: []byte("text"), err: "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Unpack(c.archive); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestFolders(t *testing.T) {
	f := sample()
	if diff := cmp.Diff([]string{"c"}, f.Folders("b")); diff != "" {
		t.Error(diff)
	}
	f.Remove("b")
	if diff := cmp.Diff([]string{"a.yaml"}, f.Names()); diff != "" {
		t.Error(diff)
	}
	f.Put("x", sample().Below("b"))
	if diff := cmp.Diff([]string{"a.yaml", "x/c/d", "x/run.sh"}, f.Names()); diff != "" {
		t.Error(diff)
	}
	if hash, err := (Files{}).Hash(); hash != "" || err != nil {
		t.Errorf("hash of nothing: %q, error %v", hash, err)
	}
}
