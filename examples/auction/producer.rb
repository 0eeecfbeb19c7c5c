#!/usr/bin/env ruby
# frozen_string_literal: true

# Writes bids to a topic, as JSON: {"auction":"auction-3","bidder":"bidder-17","amount":412}.
#
#   ruby producer.rb --bootstrap HOST:PORT [--topic bids] [--bids 1000] [--auctions 10]

require "json"
require "optparse"
require_relative "rdkafka"

# Bid number `number` of all: the same in every run, so that a reader can check the result.
def bid(number, auctions)
  {
    auction: "auction-#{number % auctions}",
    bidder: "bidder-#{number * 31 % 97}",
    amount: 100 + number * 7919 % 1009,
  }
end

options = { bootstrap: "localhost:9092", topic: "bids", bids: 1000, auctions: 10 }
OptionParser.new do |parser|
  parser.on("--bootstrap ADDRESS")
  parser.on("--topic NAME")
  parser.on("--bids NUMBER", Integer)
  parser.on("--auctions NUMBER", Integer)
end.parse!(into: options)

begin
  config = { "bootstrap.servers" => options[:bootstrap], "client.id" => "auction", "enable.idempotence" => true }
  RdKafka::Producer.open(config) do |producer|
    options[:bids].times do |number|
      made = bid(number, options[:auctions])
      producer.produce(options[:topic], key: made[:auction], value: JSON.generate(made))
    end
    producer.flush
    puts "#{producer.delivered} bids delivered"
  end
rescue RdKafka::Error => e
  warn "the bids cannot be delivered: #{e.message}"
  exit 1
end
