# frozen_string_literal: true

require "ffi"

# A small producer on librdkafka's C interface.
#
#   RdKafka::Producer.open("bootstrap.servers" => "localhost:9092") do |producer|
#     producer.produce("bids", key: "auction-1", value: "{}")
#   end
#
# The block's end waits until every record is acknowledged; RdKafka::Error is raised for the first one that is not.
module RdKafka
  class Error < StandardError; end

  # The part of librdkafka that a producer needs.
  module Library
    extend FFI::Library
    ffi_lib ["librdkafka.so.1", "librdkafka.1.dylib", "librdkafka"]

    PRODUCER = 0
    CONF_OK = 0
    ANY_PARTITION = -1
    COPY = 2
    QUEUE_FULL = -184
    QUEUED_AND_IN_FLIGHT = 3

    # rd_kafka_message_t
    class Message < FFI::Struct
      layout :error, :int, :topic, :pointer, :partition, :int32, :payload, :pointer, :size, :size_t,
             :key, :pointer, :key_size, :size_t, :offset, :int64, :private, :pointer
    end

    callback :delivered, %i[pointer pointer pointer], :void
    attach_function :rd_kafka_conf_new, [], :pointer
    attach_function :rd_kafka_conf_destroy, [:pointer], :void
    attach_function :rd_kafka_conf_set, %i[pointer string string pointer size_t], :int
    attach_function :rd_kafka_conf_set_dr_msg_cb, %i[pointer delivered], :void
    attach_function :rd_kafka_new, %i[int pointer pointer size_t], :pointer
    attach_function :rd_kafka_destroy, [:pointer], :void
    attach_function :rd_kafka_topic_new, %i[pointer string pointer], :pointer
    attach_function :rd_kafka_topic_destroy, [:pointer], :void
    attach_function :rd_kafka_produce,
                    %i[pointer int32 int buffer_in size_t buffer_in size_t pointer], :int
    attach_function :rd_kafka_last_error, [], :int
    attach_function :rd_kafka_err2str, [:int], :string
    attach_function :rd_kafka_poll, %i[pointer int], :int, blocking: true
    attach_function :rd_kafka_flush, %i[pointer int], :int, blocking: true
    attach_function :rd_kafka_purge, %i[pointer int], :int
  end

  # Writes records to topics. Not safe for use by several threads.
  class Producer
    TEXT_SIZE = 512
    POLL_MS = 100
    FLUSH_MS = 60_000

    attr_reader :delivered

    def self.open(config)
      producer = new(config)
      begin
        yield producer
        producer.flush
      ensure
        producer.close
      end
    end

    def initialize(config)
      @delivered = 0
      @failed = nil
      @topics = {}
      @callback = method(:report) # kept here: librdkafka calls it, and Ruby must not collect it before
      @handle = create(config)
    end

    # Puts a record into librdkafka's queue; waits while the queue is full.
    def produce(topic, value:, key: nil)
      until enqueue(topic_handle(topic), value, key)
        Library.rd_kafka_poll(@handle, POLL_MS)
      end
      Library.rd_kafka_poll(@handle, 0)
      raise_failure
    end

    # Waits until all records are acknowledged.
    def flush
      code = Library.rd_kafka_flush(@handle, FLUSH_MS)
      raise_failure
      raise Error, Library.rd_kafka_err2str(code) unless code.zero?
    end

    # Records that are not acknowledged yet are given up.
    def close
      Library.rd_kafka_purge(@handle, Library::QUEUED_AND_IN_FLIGHT)
      Library.rd_kafka_flush(@handle, POLL_MS)
      @topics.each_value { |topic| Library.rd_kafka_topic_destroy(topic) }
      @topics.clear
      Library.rd_kafka_destroy(@handle)
    end

    private

    def create(config)
      FFI::MemoryPointer.new(:char, TEXT_SIZE) do |text|
        settings = Library.rd_kafka_conf_new
        config.each do |name, value|
          next if Library.rd_kafka_conf_set(settings, name, value.to_s, text, TEXT_SIZE) == Library::CONF_OK

          Library.rd_kafka_conf_destroy(settings)
          raise Error, text.read_string
        end
        Library.rd_kafka_conf_set_dr_msg_cb(settings, @callback)
        handle = Library.rd_kafka_new(Library::PRODUCER, settings, text, TEXT_SIZE)
        raise Error, text.read_string if handle.null?

        return handle
      end
    end

    def topic_handle(name)
      @topics[name] ||= Library.rd_kafka_topic_new(@handle, name, nil)
    end

    # Whether there was room in the queue.
    def enqueue(topic, value, key)
      status = Library.rd_kafka_produce(
        topic, Library::ANY_PARTITION, Library::COPY, value, value.bytesize, key, key.to_s.bytesize, nil
      )
      return true if status.zero?

      code = Library.rd_kafka_last_error
      raise Error, Library.rd_kafka_err2str(code) unless code == Library::QUEUE_FULL

      false
    end

    def report(_handle, message, _opaque)
      code = Library::Message.new(message)[:error]
      code.zero? ? @delivered += 1 : @failed ||= code
    end

    def raise_failure
      raise Error, Library.rd_kafka_err2str(@failed) if @failed
    end
  end
end
