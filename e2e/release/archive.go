package release

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"time"
)

// member is a file of an archive.
type member struct {
	name       string
	executable bool
	content    []byte
}

func (m member) mode() fs.FileMode {
	if m.executable {
		return 0o755
	}
	return 0o644
}

// writeTarGz writes members in their order. Owners, times and the header of gzip are fixed, so that
// equal members give equal bytes.
func writeTarGz(w io.Writer, at time.Time, members []member) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zipped)
	for _, m := range members {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: m.name, Mode: int64(m.mode()), Size: int64(len(m.content)),
			ModTime: at, Format: tar.FormatUSTAR}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := out.Write(m.content); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// writeZip is the same for Windows.
func writeZip(w io.Writer, at time.Time, members []member) error {
	out := zip.NewWriter(w)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: at}
		header.SetMode(m.mode())
		content, err := out.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := content.Write(m.content); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeFile creates the file and has write fill it.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return write(file)
}
