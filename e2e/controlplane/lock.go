package controlplane

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// fileLock is held until Close or the death of the process, whichever comes first; that is why it is flock and not a file's existence.
type fileLock struct{ file *os.File }

// tryLock returns nil without an error if another process or another fileLock holds the lock.
func tryLock(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, file.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("flock %s: %w", path, err), file.Close())
	}
	return &fileLock{file: file}, nil
}

// Close releases the lock. The file stays: whoever deleted it would let two processes lock two files of the same name.
func (l *fileLock) Close() error { return l.file.Close() }
