package org.apache.spark.sql.kafka010;

import scala.collection.immutable.Map;

/** The companion object of KafkaTestUtils as compiled Scala calls it: the default values of the constructor. */
public final class KafkaTestUtils$ {
  public static final KafkaTestUtils$ MODULE$ = new KafkaTestUtils$();

  private KafkaTestUtils$() {}

  public Map<String, Object> $lessinit$greater$default$1() {
    return scala.collection.immutable.Map$.MODULE$.empty();
  }

  public boolean $lessinit$greater$default$2() {
    return false;
  }
}
