package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
)

// maxArchive bounds what an archive may hold when it is unpacked, in bytes: charts have at most a
// few MiB, and a small archive can grow a thousandfold.
const maxArchive = 64 << 20

// Archive is a gzipped tar of the files, each below the folder prefix, or of them as they are where
// prefix is "". withFolders adds an entry for each folder, as csctl does in the archive of staged
// addons. Equal files give equal bytes.
func (f Files) Archive(prefix string, withFolders bool) ([]byte, error) {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(zipped)
	made := map[string]bool{".": true}
	for _, name := range f.Names() {
		file := f[name]
		name = path.Join(prefix, name)
		if withFolders {
			if err := writeFolders(w, path.Dir(name), made); err != nil {
				return nil, err
			}
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(file.Data)), Mode: int64(file.mode()),
			ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Data); err != nil {
			return nil, err
		}
	}
	err = errors.Join(w.Close(), zipped.Close())
	return out.Bytes(), err
}

func writeFolders(w *tar.Writer, folder string, made map[string]bool) error {
	if made[folder] {
		return nil
	}
	if err := writeFolders(w, path.Dir(folder), made); err != nil {
		return err
	}
	made[folder] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: time.Unix(0, 0),
		Format: tar.FormatPAX})
}

// Unpack reads a gzipped tar. A path that leads out of the archive and what is neither file nor
// folder are errors.
func Unpack(archive []byte) (Files, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	r := tar.NewReader(io.LimitReader(unzipped, maxArchive))
	found := Files{}
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("the archive is cut off, or has more than %d MiB", maxArchive>>20)
		}
		if err != nil {
			return nil, err
		}
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		default:
			return nil, fmt.Errorf("%s in the archive is neither a file nor a folder", header.Name)
		}
		name := path.Clean(header.Name)
		if path.IsAbs(name) || name == ".." || strings.HasPrefix(name, "../") {
			return nil, fmt.Errorf("%s leads out of the archive", header.Name)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s in the archive: %w", header.Name, err)
		}
		found[name] = File{Data: data, Executable: header.Mode&0o100 != 0}
	}
}
