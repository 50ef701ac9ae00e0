package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// Lock takes the lock file, which need not exist, and waits while another process has it. Closing
// it, or the death of the process, gives it back. It is for what several test binaries prepare in
// one place.
func Lock(ctx context.Context, path string) (io.Closer, error) {
	return waitForLock(ctx, path, func() {})
}

// waitForLock polls rather than blocks, so that the context can end the wait. It calls waiting
// before each pause.
func waitForLock(ctx context.Context, path string, waiting func()) (*fileLock, error) {
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	for {
		lock, err := tryLock(path)
		if err != nil || lock != nil {
			return lock, err
		}
		waiting()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// fileLock is held until Close or the death of the process, whichever comes first; that is why it
// is flock and not a file's existence.
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

// Close releases the lock. The file stays: without it two processes could lock two files of the
// same name.
func (l *fileLock) Close() error { return l.file.Close() }
