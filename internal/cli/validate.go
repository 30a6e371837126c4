package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"exactly/internal/broker"
	"exactly/internal/catalog"
	"exactly/internal/config"
	"exactly/sink"
)

// validation is what `exactly validate` finds; its JSON is part of the
// interface.
type validation struct {
	File     string          `json:"file"`
	Valid    bool            `json:"valid"`
	Pipeline string          `json:"pipeline,omitempty"`
	Errors   []*config.Error `json:"errors,omitempty"`
	Warnings []*config.Error `json:"warnings,omitempty"`
	Settings []config.Value  `json:"settings,omitempty"` // with --explain
	Plan     *broker.Plan    `json:"plan,omitempty"`     // topics and ACLs that the pipeline needs
	Commands []string        `json:"commands,omitempty"` // the plan for Kafka's own tools
	Notes    []string        `json:"notes,omitempty"`    // what the plan assumes
	Checked  []string        `json:"checked,omitempty"`  // with --connect: what was found right
}

type validateFlags struct {
	explain, json, connect bool
	principal              string
	timeout                time.Duration
}

// newValidate makes `exactly validate`.
func newValidate(a *app) *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a pipeline file, and list the topics and rights that it needs",
		Long: "Checks a pipeline file without touching anything, and prints the topics and ACLs that\n" +
			"the pipeline needs, also as commands of Kafka's own tools for clusters where the program\n" +
			"may not create topics. With --connect it asks the brokers too: whether they can be reached,\n" +
			"whether the topics exist, whether they allow the transaction time-out; and every sink\n" +
			"whether its system is as it must be.",
		Args: args("FILE"),
		RunE: func(cmd *cobra.Command, got []string) error { return a.validate(cmd.Context(), got[0], f) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.explain, "explain", false, "print each effective value and why it is what it is")
	flags.BoolVar(&f.json, "json", false, "print JSON, errors too")
	flags.BoolVar(&f.connect, "connect", false, "ask the brokers and the sinks too")
	flags.StringVar(&f.principal, "principal", "", "who gets the ACLs, as in User:payments (default: User: and kafka.sasl.username)")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Second, "time limit of --connect")
	return cmd
}

func (a *app) validate(ctx context.Context, path string, flags validateFlags) (err error) {
	v := validation{File: path}
	f, sinks, err := a.load(path)
	if list := config.List(err); flags.json && list != nil {
		v.Errors = list
		return cmp.Or(writeJSON(a.out, v), error(exit{code: exitUsage}))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, catalog.CloseAll(sinks)) }()
	found := assumed(f)
	if flags.connect {
		limited, cancel := context.WithTimeout(ctx, flags.timeout)
		defer cancel()
		if found, err = a.connect(limited, f, sinks); err != nil {
			return err
		}
	}
	found.created = createdTopics(sinks)
	if err := v.fill(f, found, flags); err != nil {
		return err
	}
	if flags.json {
		return writeJSON(a.out, v)
	}
	return a.printValidation(f, v)
}

// fill says what there is to say about a right file.
func (v *validation) fill(f *config.File, found cluster, flags validateFlags) error {
	v.Valid, v.Pipeline, v.Warnings = true, f.Pipeline, f.Warnings
	v.Checked, v.Notes = found.checked, found.notes
	if flags.explain {
		v.Settings = f.Explain()
	}
	plan, err := broker.NewPlan(planInput(f, found))
	if err != nil {
		return err
	}
	v.Plan, v.Commands = &plan, plan.Commands(f.Kafka.Brokers[0], principal(f, flags.principal))
	return nil
}

// load reads a pipeline file and makes its sinks, which touch nothing yet.
func (a *app) load(path string) (*config.File, []sink.Sink, error) {
	f, err := config.Load(path, a.kinds, a.env)
	if err != nil {
		return nil, nil, err
	}
	sinks, err := catalog.OpenAll(f, a.log)
	return f, sinks, err
}

// createdTopics are those that Kafka sinks create where they are missing.
func createdTopics(sinks []sink.Sink) (out []string) {
	for _, s := range sinks {
		t, isKafka := s.(sink.Transactional)
		c, may := s.(interface{ CreateTopics() bool })
		if isKafka && may && c.CreateTopics() {
			out = append(out, t.Topics()...)
		}
	}
	return out
}

func planInput(f *config.File, found cluster) broker.PlanInput {
	return broker.PlanInput{
		Names: f.Broker().Names(1), Tasks: found.tasks,
		Sources: f.Source.Topics, Outputs: f.Outputs(), Created: found.created, DeadLetter: f.DeadLetters.Topic, Start: f.Source.Start,
		Replication: f.Kafka.Replication, CreateTopics: f.Kafka.CreateTopics, MaxSourceBytes: found.maxBytes,
	}
}

// principal is who gets the ACLs: given, the user of the pipeline, or a shell
// variable.
func principal(f *config.File, given string) string {
	if given == "" && f.Kafka.SASL.Username != "" {
		given = "User:" + f.Kafka.SASL.Username
	}
	return cmp.Or(given, `"$PRINCIPAL"`)
}

func (a *app) printValidation(f *config.File, v validation) error {
	for _, w := range v.Warnings {
		fmt.Fprintf(a.err, "warning: %s\n\n", w)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is right: pipeline %s reads %s; %s\n", v.File, v.Pipeline, strings.Join(f.Source.Topics, ", "), sinkList(f))
	for _, c := range v.Checked {
		fmt.Fprintf(&b, "  checked: %s\n", c)
	}
	if v.Settings != nil {
		b.WriteString("\nSettings\n")
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, s := range v.Settings {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", s.Path, oneLine(s.Value), s.Why)
		}
		w.Flush()
	}
	b.WriteString("\n" + v.Plan.Text())
	for _, n := range v.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	b.WriteString("\nThe same for Kafka's own tools\n")
	for _, c := range v.Commands {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	_, err := io.WriteString(a.out, b.String())
	return err
}

func sinkList(f *config.File) string {
	parts := make([]string, len(f.Sinks))
	for i, s := range f.Sinks {
		parts[i] = s.Name + " (" + s.Kind + ")"
	}
	return "sinks: " + strings.Join(parts, ", ")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
