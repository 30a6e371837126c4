package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"exactly/internal/failpoint"
	"exactly/sink"
	"exactly/sink/object/store"
)

// Commit gives decided files their final names. See sink.Committer.
func (t *task) Commit(ctx context.Context, cs []sink.Committable) error {
	for i := range cs {
		c := &cs[i]
		m, err := t.manifest(c)
		if err == nil {
			err = t.complete(ctx, c, m)
		}
		if err != nil {
			return fmt.Errorf("commit (%s, %s] of sink %s: %w", c.From, c.Through, t.s.name, err)
		}
	}
	return nil
}

func (t *task) complete(ctx context.Context, c *sink.Committable, m manifest) error {
	hit := func(p failpoint.Point) error { return t.owner.Failpoints.Hit(ctx, p, t.owner.Task, c.Epoch) }
	for _, f := range m.Files {
		if err := hit(failpoint.SinkTxnBefore); err != nil {
			return err
		}
		err := t.s.store.Complete(ctx, f)
		switch {
		case errors.Is(err, store.ErrLost):
			return sink.Fatal(fmt.Errorf("%w: %w; was the url changed, or the folder _exactly emptied, while work was pending?", sink.ErrLost, err))
		case errors.Is(err, store.ErrConflict):
			return sink.Fatal(fmt.Errorf("%w; two pipelines share an incarnation, or the file was changed", err))
		case err != nil:
			return err
		}
		if err := hit(failpoint.SinkTxnAfter); err != nil {
			return err
		}
	}
	return nil
}

// Abort removes staged files. See sink.Committer.
func (t *task) Abort(ctx context.Context, cs []sink.Committable) error {
	for i := range cs {
		c := &cs[i]
		m, err := t.manifest(c)
		for _, f := range m.Files {
			if err == nil {
				err = t.s.store.Abort(ctx, f.Name)
			}
		}
		if err != nil {
			return fmt.Errorf("abort (%s, %s] of sink %s: %w", c.From, c.Through, t.s.name, err)
		}
	}
	return nil
}

// Sweep removes what older attempts of exactly this owner left, and older
// generations. See sink.Committer.
func (t *task) Sweep(ctx context.Context, keep []sink.Committable) error {
	kept := map[string]bool{}
	for i := range keep {
		if keep[i].Sink != t.owner.Sink {
			continue
		}
		m, err := t.manifest(&keep[i])
		if err != nil {
			return fmt.Errorf("sweep sink %s: %w", t.s.name, err)
		}
		for _, f := range m.Files {
			kept[f.Name] = true
		}
	}
	removed := 0
	for name, err := range t.s.store.Uploads(ctx) {
		if err == nil && t.orphan(name) && !kept[name] {
			removed++
			err = t.abort(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("sweep sink %s: %w", t.s.name, err)
		}
	}
	if removed > 0 {
		o := t.owner
		o.Log.InfoContext(ctx, "removed staged files of older attempts", "pipeline", o.Pipeline,
			"sink", o.Sink, "task", o.Task, "attempt", o.Attempt, "files", removed)
	}
	return nil
}

func (t *task) abort(ctx context.Context, name string) error {
	hit := func(p failpoint.Point) error { return t.owner.Failpoints.Hit(ctx, p, t.owner.Task, 0) }
	if err := hit(failpoint.SinkAbortBefore); err != nil {
		return err
	}
	if err := t.s.store.Abort(ctx, name); err != nil {
		return err
	}
	return hit(failpoint.SinkAbortAfter)
}

// orphan reports whether an upload is of an older attempt of this owner, or of an
// older generation. What has another form is not ours.
func (t *task) orphan(name string) bool {
	n, err := parseStaged(name)
	return err == nil && (n.ofOwner(t.owner) && n.Attempt < t.owner.Attempt || n.ofOlder(t.owner))
}

// manifest reads the files of a committable, and refuses one that names files
// of anyone else.
func (t *task) manifest(c *sink.Committable) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(c.Data, &m); err != nil {
		return manifest{}, sink.Fatal(fmt.Errorf("read committable: %w", err))
	}
	if m.Version != manifestVersion {
		return manifest{}, sink.Fatal(fmt.Errorf("committable of version %d, this release reads %d; run the release that wrote it", m.Version, manifestVersion))
	}
	for _, f := range m.Files {
		if err := t.owns(f); err != nil {
			return manifest{}, err
		}
	}
	return m, nil
}

func (t *task) owns(f store.Staged) error {
	o := t.owner
	staged, err := parseStaged(f.Name)
	if err != nil {
		return sink.Fatal(fmt.Errorf("read committable: %w", err))
	}
	final, err := ParseName(path.Base(f.Final))
	if err != nil {
		return sink.Fatal(fmt.Errorf("read committable: %w", err))
	}
	if !staged.ofOwner(o) || final.Incarnation != o.Incarnation || final.Pipeline != o.Pipeline ||
		final.Sink != o.Sink || final.Generation != o.Generation || final.Task != o.Task {
		return fmt.Errorf("committable names file %s, which is not of this task: %w", f.Final, sink.ErrForeignMark)
	}
	return nil
}
