package store

import (
	"context"
	"errors"
	"io"
	"iter"
)

var (
	// ErrExists: Create found an upload of that name.
	ErrExists = errors.New("a staged upload of that name exists")
	// ErrLost: an upload is gone and its object is not there either.
	ErrLost = errors.New("neither the staged upload nor the final object exists")
	// ErrConflict: an object of the final name exists and is not this one.
	ErrConflict = errors.New("another object has the final name")
	// ErrBroken: the upload cannot be trusted any more (a flush failed, and a
	// repeated one would report success for pages that are gone); its content
	// must be made again under another name.
	ErrBroken = errors.New("the staged upload is broken")
)

// Staged names a finished upload, with all that another process needs to
// complete or to abort it.
type Staged struct {
	Name  string `json:"staged"`          // as given to Create
	Final string `json:"final"`           // path below the root, with slashes
	Size  int64  `json:"size"`            // bytes
	Sum   string `json:"sum"`             // "algorithm:hex" over the whole object
	Token string `json:"token,omitempty"` // the store's own, e.g. an upload id with part tags
}

// Object is a final object.
type Object struct {
	Path string // below the root, with slashes
	Size int64  // bytes
}

// Reader reads one object in any order.
type Reader interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Upload is an object being made. It is used by one goroutine.
type Upload interface {
	// Name is as given to Create.
	Name() string
	// PartSize is how many bytes a part should have, all but the last one; the
	// caller holds as many in memory.
	PartSize() int
	// Put appends p. On an error nothing of p counts, and Put may be called
	// again with the same bytes or with more. p is not kept.
	Put(ctx context.Context, p []byte) error
	// Finish makes all that was put durable, still invisible, to become the
	// object final. It may be repeated after an error, other than ErrBroken.
	Finish(ctx context.Context, final string) (Staged, error)
	// Close lets go of files and connections, and of nothing durable.
	Close() error
}

// Store keeps the objects below one root. It is safe for concurrent use, also
// by several processes.
type Store interface {
	// Check finds out whether all that the store does is allowed.
	Check(ctx context.Context) error
	// Create begins an upload; ErrExists if the name is taken.
	Create(ctx context.Context, name string) (Upload, error)
	// Complete makes a finished upload visible. ErrLost and ErrConflict are
	// final, every other error may pass.
	Complete(ctx context.Context, s Staged) error
	// Abort removes an upload by the name given to Create.
	Abort(ctx context.Context, name string) error
	// Uploads lists the names of all uploads, finished or not. Correctness
	// must not rest on its being complete.
	Uploads(ctx context.Context) iter.Seq2[string, error]
	// Mark keeps a small value under a name for ever, if there is none yet, and
	// returns the one that is kept.
	Mark(ctx context.Context, name, value string) (string, error)
	// Objects lists the final objects, in an order that is the same each time,
	// by path within a folder. Folders and files whose
	// name begins with "_" or "." are not objects, as query engines see it.
	Objects(ctx context.Context) iter.Seq2[Object, error]
	// Open opens a final object for reading.
	Open(ctx context.Context, path string) (Reader, error)
	// Locate gives the place of a path as people and errors name it.
	Locate(path string) string
}
