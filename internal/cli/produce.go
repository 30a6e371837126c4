package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"exactly/internal/broker"
	"exactly/internal/config"
	"exactly/internal/payments"
)

type produceFlags struct {
	payments.Options
	brokers []string
	create  int32
}

// newProduce makes `exactly produce`.
func newProduce(a *app) *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use:   "produce [FILE]",
		Short: "Write payments to a topic, for trials",
		Long: "Writes the payments that the demo runs on: payment i has the id UUIDv5(DNS, \"payment-i\").\n" +
			"With a pipeline FILE it writes to the first source topic, with the connection of the file;\n" +
			"without one give --brokers and --topic. Stop it with Ctrl-C; it prints the number of the\n" +
			"next payment, from which --first goes on.",
		Args: func(cmd *cobra.Command, got []string) error {
			if len(got) > 1 {
				return usageError{cmd: cmd.CommandPath(), err: fmt.Errorf("%q is one argument too many", got[1])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, got []string) error { return a.produce(cmd.Context(), got, f) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.brokers, "brokers", nil, "addresses host:port, in place of those of FILE")
	flags.StringVar(&f.Topic, "topic", "", "topic, in place of the first source topic of FILE")
	flags.Int64Var(&f.First, "first", 0, "number of the first payment")
	flags.Int64Var(&f.Count, "count", 0, "how many payments; 0: until stopped")
	flags.Float64Var(&f.Rate, "rate", 100, "payments per second; 0: as fast as the broker takes them")
	flags.Int32Var(&f.create, "create", 0, "create the topic with so many partitions if it is missing")
	return cmd
}

func (a *app) produce(ctx context.Context, got []string, f produceFlags) error {
	conf := broker.Config{Pipeline: "produce"}
	if len(got) == 1 {
		file, err := config.Load(got[0], a.kinds, a.env)
		if err != nil {
			return err
		}
		conf = file.Broker()
		if f.Topic == "" {
			f.Topic = file.Source.Topics[0]
		}
	}
	if len(f.brokers) > 0 {
		conf.Brokers = f.brokers
	}
	if len(conf.Brokers) == 0 {
		return usageError{cmd: "exactly produce", err: errors.New("give a pipeline FILE, or --brokers and --topic")}
	}
	if err := f.Validate(); err != nil {
		return usageError{cmd: "exactly produce", err: fmt.Errorf("--%w", err)}
	}
	conf.Log = a.log
	opts, err := broker.Options(conf)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("connect to %v: %w", conf.Brokers, err)
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return environment(fmt.Errorf("connect to %v: %w", conf.Brokers, err))
	}
	if err := ensureTopic(ctx, cl, f.Topic, f.create); err != nil {
		return environment(err)
	}
	next, err := payments.Produce(ctx, cl, f.Options)
	fmt.Fprintf(a.out, "wrote payments %d to %d to topic %s; go on with --first %d\n", f.First, next-1, f.Topic, next)
	return err
}

// ensureTopic creates a topic, or, with no partitions to create, only looks
// whether it is there.
func ensureTopic(ctx context.Context, cl *kgo.Client, topic string, partitions int32) error {
	adm := kadm.NewClient(cl)
	if partitions > 0 {
		_, err := adm.CreateTopic(ctx, partitions, -1, nil, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	topics, err := adm.ListTopics(ctx, topic)
	if err == nil {
		err = topics[topic].Err
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("topic %s does not exist; create it, or give --create with a number of partitions", topic)
	}
	if err != nil {
		return fmt.Errorf("look up topic %s: %w", topic, err)
	}
	return nil
}
